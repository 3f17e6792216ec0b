package distributary;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.BiFunction;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory$;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;

/**
 * The files of one snapshot of a Delta table, for Spark's own Parquet reader.
 *
 * <p>Nothing is ever listed: the files come from the log, as columns (path, size, time, one column for each
 * partition column). A file becomes an object only when it survives the filters of a query: those over
 * partition columns, evaluated exactly, and those over data columns, decided by statistics.
 */
public class SnapshotFileIndex implements FileIndex {
  private static final long BLOCK_SIZE = 128L << 20;
  // When partition filters leave less than this part of the files, only their statistics are asked for.
  private static final int FEW = 4;

  private final String root;
  private final String identity;
  private final StructType partitionSchema;
  private final int count;
  private final FileColumn path;
  private final FileColumn size;
  private final FileColumn modified;
  private final FileColumn[] partition;
  private final FileStatistics statistics;
  private final long totalBytes;

  /**
   * @param root path text of the table, below which relative paths lie
   * @param identity what tells equal lists apart from others, or null where this list equals only itself
   * @param files the columns: as bytes, or the name of a file that holds them
   * @param statistics gives the statistics of columns, see FileStatistics; null where there are none
   */
  public SnapshotFileIndex(
      String root, String identity, Object files, StructType partitionSchema, BiFunction statistics) {
    this.root = root;
    this.identity = identity;
    this.partitionSchema = partitionSchema;
    this.statistics = new FileStatistics(statistics);
    FileColumns columns = FileColumns.open(files);
    count = columns.count;
    path = columns.next();
    size = columns.next();
    modified = columns.next();
    partition = new FileColumn[partitionSchema.fields().length];
    for (int at = 0; at < partition.length; at++) {
      partition[at] = columns.next();
    }
    long total = 0;
    for (int file = 0; file < count; file++) {
      total += size.getLong(file);
    }
    totalBytes = total;
  }

  public Seq rootPaths() {
    ArrayBuffer paths = new ArrayBuffer();
    paths.append(new Path(root + "/"));
    return paths.toSeq();
  }

  /** The files that may hold rows which satisfy the filters, those of equal partition values together. */
  public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
    int[] kept = keptFiles(partitionFilters, dataFilters);
    Map directories = new LinkedHashMap();
    for (int at = 0; at < kept.length; at++) {
      GenericInternalRow values = values(kept[at]);
      ArrayList files = (ArrayList) directories.get(values);
      if (files == null) {
        files = new ArrayList();
        directories.put(values, files);
      }
      files.add(status(kept[at]));
    }
    return found(directories);
  }

  private int[] keptFiles(Seq partitionFilters, Seq dataFilters) {
    PartitionTest wanted = new PartitionTest(partitionFilters, partitionSchema, partition);
    int[] candidates = new int[count];
    int found = 0;
    for (int file = 0; file < count; file++) {
      if (wanted.matches(file)) {
        candidates[found++] = file;
      }
    }
    return dataFilters.isEmpty() ? Arrays.copyOf(candidates, found) : useful(candidates, found, dataFilters);
  }

  /** Those of the first so many candidates that may hold rows which satisfy the filters. */
  private int[] useful(int[] candidates, int found, Seq dataFilters) {
    SkippingRules rules = new SkippingRules(partitionSchema, partition);
    byte[] few = found > count / FEW ? null : bits(candidates, found);
    FileTest test = rules.all(dataFilters, statistics.with(rules.columns(dataFilters), few));
    int kept = 0;
    for (int at = 0; at < found; at++) {
      if (test.mayMatch(candidates[at])) {
        candidates[kept++] = candidates[at];
      }
    }
    return Arrays.copyOf(candidates, kept);
  }

  /** The same with a bit for each file. */
  public byte[] keptBits(Seq partitionFilters, Seq dataFilters) {
    int[] kept = keptFiles(partitionFilters, dataFilters);
    return bits(kept, kept.length);
  }

  private byte[] bits(int[] files, int found) {
    byte[] bits = new byte[(count + 7) / 8];
    for (int at = 0; at < found; at++) {
      bits[files[at] >> 3] |= (byte) (1 << (files[at] & 7));
    }
    return bits;
  }

  private static Seq found(Map directories) {
    ArrayBuffer found = new ArrayBuffer();
    java.util.Iterator entries = directories.entrySet().iterator();
    while (entries.hasNext()) {
      Map.Entry entry = (Map.Entry) entries.next();
      ArrayList files = (ArrayList) entry.getValue();
      FileStatus[] statuses = (FileStatus[]) files.toArray(new FileStatus[files.size()]);
      found.append(PartitionDirectory$.MODULE$.apply((GenericInternalRow) entry.getKey(), statuses));
    }
    return found.toSeq();
  }

  private GenericInternalRow values(int file) {
    Object[] values = new Object[partition.length];
    for (int at = 0; at < values.length; at++) {
      values[at] = partition[at].get(file);
    }
    return new GenericInternalRow(values);
  }

  private FileStatus status(int file) {
    return new FileStatus(
        size.getLong(file), false, 1, BLOCK_SIZE, modified.getLong(file), new Path(pathText(file)));
  }

  /** A key lies below the root; a path elsewhere is marked by a leading slash, which no key has. */
  private String pathText(int file) {
    String text = path.get(file).toString();
    return text.charAt(0) == '/' ? text.substring(1) : root + "/" + text;
  }

  public String[] inputFiles() {
    String[] files = new String[count];
    for (int file = 0; file < count; file++) {
      files[file] = new Path(pathText(file)).toUri().toString();
    }
    return files;
  }

  public void refresh() {}

  public long sizeInBytes() {
    return totalBytes;
  }

  public StructType partitionSchema() {
    return partitionSchema;
  }

  public scala.Option metadataOpsTimeNs() {
    return scala.Option.empty();
  }

  public boolean equals(Object other) {
    return other == this
        || (identity != null
            && other instanceof SnapshotFileIndex
            && identity.equals(((SnapshotFileIndex) other).identity));
  }

  public int hashCode() {
    return identity == null ? System.identityHashCode(this) : identity.hashCode();
  }

  public String toString() {
    return "SnapshotFileIndex(" + count + " files of " + root + ")";
  }
}
