package distributary;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;

/**
 * Spark's Parquet format for tables whose files know columns by other names (column mapping), or whose filters
 * must not all be pushed into files (numbers that may be NaN).
 *
 * <p>Catalyst prunes and pushes by the names of the table. Only then, on the driver, are the names exchanged for
 * those of the files and the work handed to a stock ParquetFileFormat, so that executors never see this class.
 *
 * <p>In id mode columns are found by Parquet's field ids. Filters are then not pushed into files: Spark would
 * find their columns by name, and a file may use a name for another column.
 */
public class MappedParquetFormat extends ParquetFileFormat {
  private final PhysicalNames names;
  private final boolean byId;

  /**
   * @param schema the columns of the table with `delta.columnMapping.physicalName` and `.id` in their metadata
   */
  public MappedParquetFormat(StructType schema, boolean byId) {
    this.names = new PhysicalNames(schema, byId);
    this.byId = byId;
  }

  public scala.Function1 buildReaderWithPartitionValues(
      SparkSession spark,
      StructType dataSchema,
      StructType partitionSchema,
      StructType requiredSchema,
      Seq filters,
      Map options,
      Configuration conf) {
    ArrayBuffer pushed = new ArrayBuffer();
    Iterator each = filters.iterator();
    while (!byId && each.hasNext()) {
      Filter filter = names.filter((Filter) each.next());
      if (filter != null) {
        pushed.append(filter);
      }
    }
    if (byId) {
      conf.setBoolean("spark.sql.parquet.fieldId.read.enabled", true);
    }
    return new ParquetFileFormat()
        .buildReaderWithPartitionValues(
            spark,
            names.struct(dataSchema),
            partitionSchema,
            names.struct(requiredSchema),
            pushed.toSeq(),
            options,
            conf);
  }
}
