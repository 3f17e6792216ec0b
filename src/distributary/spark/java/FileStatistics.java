package distributary;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.function.BiFunction;

/**
 * The statistics of the files of an index, column by column, asked for when a query first needs them.
 *
 * <p>The source is asked with the paths of columns and, where only some files matter, with a bit for each file.
 * It gives the number of records and then minimum, maximum, null count and exactness of each column, one value a
 * file; files that do not matter have none.
 */
public class FileStatistics {
  /** Between the names of a path, and between paths. */
  public static final String INSIDE = "\u001f";
  public static final String NEXT = "\u001e";

  private final BiFunction source;
  private final Map known;

  public FileStatistics(BiFunction source) {
    this(source, new HashMap());
  }

  private FileStatistics(BiFunction source, Map known) {
    this.source = source;
    this.known = known;
  }

  /**
   * The statistics with these columns in them. They are kept for other queries only when all files matter: a
   * query for a few partitions of a large table should not wait for the statistics of all the others.
   */
  public synchronized FileStatistics with(Set paths, byte[] files) {
    StringBuilder missing = new StringBuilder();
    Iterator each = paths.iterator();
    while (each.hasNext()) {
      String path = (String) each.next();
      if (!known.containsKey(path)) {
        missing.append(missing.length() == 0 ? "" : NEXT).append(path);
      }
    }
    if (missing.length() == 0 || source == null) {
      return this;
    }
    Map more = files == null ? known : new HashMap(known);
    add(more, missing.toString().split(NEXT), FileColumns.open(source.apply(missing.toString(), files)));
    return new FileStatistics(source, more);
  }

  private static void add(Map columns, String[] paths, FileColumns found) {
    FileColumn records = found.next();
    for (int at = 0; at < paths.length; at++) {
      boolean nested = paths[at].contains(INSIDE);
      FileColumn minimum = found.next();
      FileColumn maximum = found.next();
      FileColumn nullCount = found.next();
      FileColumn exact = found.next();
      columns.put(paths[at], new ColumnStatistics(minimum, maximum, nullCount, exact, records, nested));
    }
  }

  /** The statistics of a column that was loaded, or null where there are none. */
  public synchronized ColumnStatistics column(String path) {
    return (ColumnStatistics) known.get(path);
  }
}
