package distributary;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * One value a file: a column of the file list in Arrow's own memory layout, read in place.
 *
 * <p>Values come as Catalyst keeps them (days, microseconds, UTF8String, Decimal), so that they can be compared
 * with the literals of a filter and put into a row as they are.
 */
public class FileColumn {
  public static final byte BOOLEAN = 0;
  public static final byte BYTE = 1;
  public static final byte SHORT = 2;
  public static final byte INT = 3;
  public static final byte LONG = 4;
  public static final byte FLOAT = 5;
  public static final byte DOUBLE = 6;
  public static final byte STRING = 7;
  public static final byte BINARY = 8;
  public static final byte DECIMAL = 9;
  public static final byte NOTHING = 10;

  private final byte kind;
  private final int precision;
  private final int scale;
  private final ByteBuffer source;
  private final boolean hasNulls;
  private final int validity;
  private final int offsets;
  private final int data;

  /** Takes the next column out of a buffer over a whole array; little-endian. */
  public FileColumn(ByteBuffer source) {
    this.source = source;
    kind = source.get();
    precision = source.getInt();
    scale = source.getInt();
    hasNulls = source.getInt(source.position()) > 0;
    validity = nextPart();
    offsets = nextPart();
    data = nextPart();
  }

  /** Where the next part starts; the buffer goes on behind it. */
  private int nextPart() {
    int length = source.getInt();
    int start = source.position();
    source.position(start + length);
    return start;
  }

  /** Whether a file has no value. */
  public boolean isNull(int file) {
    return kind == NOTHING || (hasNulls && !bit(validity, file));
  }

  /** The value of a file, or null. */
  public Object get(int file) {
    if (isNull(file)) {
      return null;
    }
    switch (kind) {
      case BOOLEAN: return Boolean.valueOf(bit(data, file));
      case BYTE: return Byte.valueOf(source.get(data + file));
      case SHORT: return Short.valueOf(source.getShort(data + file * 2));
      case INT: return Integer.valueOf(source.getInt(data + file * 4));
      case LONG: return Long.valueOf(getLong(file));
      case FLOAT: return Float.valueOf(source.getFloat(data + file * 4));
      case DOUBLE: return Double.valueOf(source.getDouble(data + file * 8));
      case STRING: return UTF8String.fromBytes(bytes(file));
      case BINARY: return bytes(file);
      default: return decimal(file);
    }
  }

  /** The number of a file in a column of long that has no nulls. */
  public long getLong(int file) {
    return source.getLong(data + file * 8);
  }

  /** Whether the values are those that Catalyst has for a type. */
  public boolean holds(DataType type) {
    if (type instanceof DecimalType) {
      DecimalType found = (DecimalType) type;
      return kind == DECIMAL && found.precision() == precision && found.scale() == scale;
    }
    return kind == kindOf(type);
  }

  private static byte kindOf(DataType type) {
    if (type instanceof BooleanType) return BOOLEAN;
    if (type instanceof ByteType) return BYTE;
    if (type instanceof ShortType) return SHORT;
    if (type instanceof IntegerType || type instanceof DateType) return INT;
    if (type instanceof LongType || type instanceof TimestampType || type instanceof TimestampNTZType) return LONG;
    if (type instanceof FloatType) return FLOAT;
    if (type instanceof DoubleType) return DOUBLE;
    // A string with a collation has an order of its own, which the bounds of files do not follow.
    if (type.equals(StringType$.MODULE$)) return STRING;
    return -1;
  }

  private boolean bit(int bits, int at) {
    return ((source.get(bits + (at >> 3)) >> (at & 7)) & 1) != 0;
  }

  private byte[] bytes(int file) {
    int start = data + source.getInt(offsets + file * 4);
    return Arrays.copyOfRange(source.array(), start, data + source.getInt(offsets + file * 4 + 4));
  }

  private Decimal decimal(int file) {
    byte[] bigEndian = new byte[16];
    for (int at = 0; at < 16; at++) {
      bigEndian[at] = source.get(data + file * 16 + 15 - at);
    }
    BigDecimal value = new BigDecimal(new BigInteger(bigEndian), scale);
    return Decimal$.MODULE$.apply(value, precision, scale);
  }
}
