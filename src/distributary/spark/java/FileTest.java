package distributary;

import java.util.Arrays;
import org.apache.spark.unsafe.types.UTF8String;
import scala.math.Ordering;

/**
 * Whether a file may hold a row for which a condition is true: yes whenever that is not known.
 *
 * <p>A test answers no only by proof, so a file is left out only when none of its rows can match. Tests are
 * joined by "both" and "either" alone: a negation is pushed down to the conditions before a test is made.
 */
public abstract class FileTest {
  public abstract boolean mayMatch(int file);

  /** The same answer for every file. */
  public static class Constant extends FileTest {
    private final boolean answer;

    public Constant(boolean answer) {
      this.answer = answer;
    }

    public boolean mayMatch(int file) {
      return answer;
    }
  }

  /** Two conditions must hold. */
  public static class Both extends FileTest {
    private final FileTest left;
    private final FileTest right;

    public Both(FileTest left, FileTest right) {
      this.left = left;
      this.right = right;
    }

    public boolean mayMatch(int file) {
      return left.mayMatch(file) && right.mayMatch(file);
    }
  }

  /** One of two conditions must hold. */
  public static class Either extends FileTest {
    private final FileTest left;
    private final FileTest right;

    public Either(FileTest left, FileTest right) {
      this.left = left;
      this.right = right;
    }

    public boolean mayMatch(int file) {
      return left.mayMatch(file) || right.mayMatch(file);
    }
  }

  /** A condition over partition columns alone; where it fails to evaluate, the rows will tell. */
  public static class OfPartition extends FileTest {
    private final PartitionTest test;

    public OfPartition(PartitionTest test) {
      this.test = test;
    }

    public boolean mayMatch(int file) {
      try {
        return test.matches(file);
      } catch (RuntimeException failure) {
        return true;
      }
    }
  }

  /** column IS NULL. */
  public static class IsNull extends FileTest {
    private final ColumnStatistics column;

    public IsNull(ColumnStatistics column) {
      this.column = column;
    }

    public boolean mayMatch(int file) {
      return column.mayHaveNull(file);
    }
  }

  /** column IS NOT NULL. */
  public static class IsNotNull extends FileTest {
    private final ColumnStatistics column;

    public IsNotNull(ColumnStatistics column) {
      this.column = column;
    }

    public boolean mayMatch(int file) {
      return column.mayHaveValue(file);
    }
  }

  /** A value below a limit. */
  public static class Below extends FileTest {
    private final ColumnStatistics column;
    private final Object limit;
    private final boolean inclusive;
    private final Ordering order;

    public Below(ColumnStatistics column, Object limit, boolean inclusive, Ordering order) {
      this.column = column;
      this.limit = limit;
      this.inclusive = inclusive;
      this.order = order;
    }

    public boolean mayMatch(int file) {
      if (!column.mayHaveValue(file)) {
        return false;
      }
      Object low = column.minimum.get(file);
      int found = low == null ? -1 : order.compare(low, limit);
      return found < 0 || (inclusive && found == 0);
    }
  }

  /** A value above a limit; not for columns that may hold NaN. */
  public static class Above extends FileTest {
    private final ColumnStatistics column;
    private final Object limit;
    private final boolean inclusive;
    private final Ordering order;

    public Above(ColumnStatistics column, Object limit, boolean inclusive, Ordering order) {
      this.column = column;
      this.limit = limit;
      this.inclusive = inclusive;
      this.order = order;
    }

    public boolean mayMatch(int file) {
      if (!column.mayHaveValue(file)) {
        return false;
      }
      Object high = column.maximum.get(file);
      int found = high == null ? 1 : order.compare(high, limit);
      return found > 0 || (inclusive && found == 0);
    }
  }

  /** One of several values, none of them NaN. */
  public static class OneOf extends FileTest {
    private final ColumnStatistics column;
    private final Object[] values;
    private final Ordering order;

    public OneOf(ColumnStatistics column, Object[] values, Ordering order) {
      this.column = column;
      this.values = values;
      this.order = order;
      Arrays.sort(values, order);
    }

    /** Whether the first value that is not below the minimum is not above the maximum. */
    public boolean mayMatch(int file) {
      if (!column.mayHaveValue(file)) {
        return false;
      }
      Object low = column.minimum.get(file);
      int first = low == null ? 0 : Arrays.binarySearch(values, low, order);
      first = first < 0 ? -first - 1 : first;
      if (first == values.length) {
        return false;
      }
      Object high = column.maximum.get(file);
      return high == null || order.compare(values[first], high) <= 0;
    }
  }

  /** A value other than this one, or (where nulls count as others) no value. */
  public static class Other extends FileTest {
    private final ColumnStatistics column;
    private final Object value;
    private final boolean nullsToo;
    private final Ordering order;

    public Other(ColumnStatistics column, Object value, boolean nullsToo, Ordering order) {
      this.column = column;
      this.value = value;
      this.nullsToo = nullsToo;
      this.order = order;
    }

    public boolean mayMatch(int file) {
      return (nullsToo && column.mayHaveNull(file))
          || (column.mayHaveValue(file) && !column.isOnly(file, value, order));
    }
  }

  /** A text with a prefix. */
  public static class Prefix extends FileTest {
    private final ColumnStatistics column;
    private final UTF8String prefix;

    public Prefix(ColumnStatistics column, UTF8String prefix) {
      this.column = column;
      this.prefix = prefix;
    }

    public boolean mayMatch(int file) {
      UTF8String low = (UTF8String) column.minimum.get(file);
      UTF8String high = (UTF8String) column.maximum.get(file);
      return column.mayHaveValue(file)
          && (low == null || low.compareTo(prefix) <= 0 || low.startsWith(prefix))
          && (high == null || high.compareTo(prefix) >= 0);
    }
  }
}
