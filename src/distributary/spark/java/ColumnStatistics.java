package distributary;

import org.apache.spark.sql.catalyst.util.TypeUtils$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import scala.math.Ordering;

/**
 * What the log says about the values of one column in each file.
 *
 * <p>Bounds are inclusive and safe: all values but NaN lie between them, though they need not occur themselves
 * unless they are exact. What is not known is null.
 */
public class ColumnStatistics {
  public final FileColumn minimum;
  public final FileColumn maximum;
  private final FileColumn nullCount;
  private final FileColumn exact;
  private final FileColumn records;
  private final boolean nested;

  public ColumnStatistics(
      FileColumn minimum,
      FileColumn maximum,
      FileColumn nullCount,
      FileColumn exact,
      FileColumn records,
      boolean nested) {
    this.minimum = minimum;
    this.maximum = maximum;
    this.nullCount = nullCount;
    this.exact = exact;
    this.records = records;
    this.nested = nested;
  }

  /** Whether both bounds are values of this type, so that literals of the type can be compared with them. */
  public boolean bounds(DataType type) {
    return minimum.holds(type) && maximum.holds(type);
  }

  /** Whether a file may have a row with a null. Inside structs a count of 0 proves nothing: writers differ. */
  public boolean mayHaveNull(int file) {
    return nested || nullCount.isNull(file) || nullCount.getLong(file) != 0;
  }

  /** Whether a file may have a row with a value. */
  public boolean mayHaveValue(int file) {
    return nullCount.isNull(file) || records.isNull(file) || nullCount.getLong(file) != records.getLong(file);
  }

  /** Whether every value of a file is this one. */
  public boolean isOnly(int file, Object value, Ordering order) {
    Object low = minimum.get(file);
    Object high = maximum.get(file);
    return low != null
        && high != null
        && Boolean.TRUE.equals(exact.get(file))
        && order.compare(low, value) == 0
        && order.compare(high, value) == 0;
  }

  /** The order of a type's values in Spark: NaN is the greatest number, -0.0 equals 0.0. */
  public static Ordering order(DataType type) {
    return TypeUtils$.MODULE$.getInterpretedOrdering(type);
  }

  /** Whether a column may hold NaN, which bounds leave out. */
  public static boolean mayBeNaN(DataType type) {
    return type instanceof FloatType || type instanceof DoubleType;
  }
}
