package distributary;

import java.util.HashMap;
import java.util.function.BiFunction;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType$;
import org.apache.spark.sql.types.StructType;

/**
 * The rows of files as frames of Spark, each made by one call: every question of Python to the JVM takes its
 * time, and a query that reads little would wait for dozens of them.
 *
 * <p>Schemas come as JSON, lists of texts as one text with a separator between.
 */
public class SnapshotRelations {
  private static final String NEXT = "\u001e";

  public SnapshotRelations() {}

  /** The files as an index, see there. */
  public SnapshotFileIndex index(
      String root, String identity, Object files, String partitionSchema, BiFunction statistics) {
    return new SnapshotFileIndex(root, identity, files, schema(partitionSchema), statistics);
  }

  /**
   * The rows of an index: columns of the files, then those that are constant in each.
   *
   * @param mapped the columns with their names in files, or null where Spark's own format is to read them
   * @param options names and values by turns
   */
  public Dataset frame(
      SparkSession session,
      SnapshotFileIndex index,
      String dataSchema,
      String mapped,
      boolean byId,
      String options) {
    FileFormat format = new ParquetFileFormat();
    if (mapped != null) {
      format = new MappedParquetFormat(schema(mapped), byId);
    }
    return session.baseRelationToDataFrame(
        new HadoopFsRelation(
            (FileIndex) index,
            index.partitionSchema(),
            schema(dataSchema),
            scala.Option.empty(),
            format,
            options(options),
            session));
  }

  /** Some columns of a frame, and the number of each row in its file where that is to have a name. */
  public Dataset select(Dataset frame, String columns, String rowNumber) {
    String[] names = columns.split(NEXT);
    Column[] wanted = new Column[names.length + (rowNumber == null ? 0 : 1)];
    for (int at = 0; at < names.length; at++) {
      wanted[at] = frame.col("`" + names[at].replace("`", "``") + "`");
    }
    if (rowNumber != null) {
      wanted[names.length] = frame.metadataColumn("_metadata").getField("row_index").as(rowNumber);
    }
    return frame.select(wanted);
  }

  /** A file that breaks its promise of no nulls would be read wrongly, so nothing is promised. */
  private static StructType schema(String json) {
    return ((StructType) DataType$.MODULE$.fromJson(json)).asNullable();
  }

  private static scala.collection.immutable.Map options(String text) {
    HashMap options = new HashMap();
    String[] parts = text.split(NEXT, -1);
    for (int at = 0; at + 1 < parts.length; at += 2) {
      options.put(parts[at], parts[at + 1]);
    }
    return scala.collection.immutable.Map$.MODULE$.from(
        scala.jdk.javaapi.CollectionConverters$.MODULE$.asScala((java.util.Map) options));
  }
}
