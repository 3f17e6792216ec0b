package distributary;

import org.apache.spark.sql.connector.catalog.CatalogV2Implicits$;
import org.apache.spark.sql.sources.*;
import org.apache.spark.sql.types.*;
import scala.collection.Iterator;

/** The names that data files have for the columns of a table, at every level, and what may be asked by them. */
public class PhysicalNames {
  private static final String NAME = "delta.columnMapping.physicalName";
  private static final String ID = "delta.columnMapping.id";

  private final StructType table;
  private final boolean withIds;

  public PhysicalNames(StructType table, boolean withIds) {
    this.table = table;
    this.withIds = withIds;
  }

  /** A (pruned) schema of the table with the names of the files. */
  public StructType struct(StructType schema) {
    return struct(schema, table);
  }

  private StructType struct(StructType schema, StructType known) {
    StructField[] fields = schema.fields();
    StructField[] renamed = new StructField[fields.length];
    for (int at = 0; at < fields.length; at++) {
      StructField found = find(known, fields[at].name());
      renamed[at] = found == null ? fields[at] : field(fields[at], found);
    }
    return new StructType(renamed);
  }

  private StructField field(StructField field, StructField known) {
    Metadata metadata = field.metadata();
    if (withIds && known.metadata().contains(ID)) {
      metadata =
          new MetadataBuilder()
              .withMetadata(metadata)
              .putLong("parquet.field.id", known.metadata().getLong(ID))
              .build();
    }
    return new StructField(nameOf(known), type(field.dataType(), known.dataType()), field.nullable(), metadata);
  }

  private DataType type(DataType type, DataType known) {
    if (type instanceof StructType && known instanceof StructType) {
      return struct((StructType) type, (StructType) known);
    }
    if (type instanceof ArrayType && known instanceof ArrayType) {
      ArrayType array = (ArrayType) type;
      return new ArrayType(type(array.elementType(), ((ArrayType) known).elementType()), array.containsNull());
    }
    if (type instanceof MapType && known instanceof MapType) {
      MapType map = (MapType) type;
      DataType key = type(map.keyType(), ((MapType) known).keyType());
      DataType value = type(map.valueType(), ((MapType) known).valueType());
      return new MapType(key, value, map.valueContainsNull());
    }
    return type;
  }

  private static StructField find(StructType known, String name) {
    StructField[] fields = known.fields();
    for (int at = 0; at < fields.length; at++) {
      if (fields[at].name().equalsIgnoreCase(name)) {
        return fields[at];
      }
    }
    return null;
  }

  private static String nameOf(StructField known) {
    return known.metadata().contains(NAME) ? known.metadata().getString(NAME) : known.name();
  }

  /**
   * A filter with the names of the files, or null where it must not be pushed: Spark filters the rows anyway. A
   * part of an AND may be left out for that reason, a part of an OR or below a NOT may not.
   *
   * <p>Numbers that may be NaN need care. Many writers leave NaN out of the bounds of a row group, and Parquet's
   * own filter does not reckon with that: it would drop a row group whose NaN is greater than any limit. It also
   * takes -0.0 for less than 0.0, which Spark does not. So only questions for null are pushed over them.
   */
  public Filter filter(Filter filter) {
    if (filter instanceof And) {
      Filter left = filter(((And) filter).left());
      Filter right = filter(((And) filter).right());
      return left == null ? right : right == null ? left : new And(left, right);
    }
    if (filter instanceof Or) {
      Filter left = filter(((Or) filter).left());
      Filter right = filter(((Or) filter).right());
      return left == null || right == null ? null : new Or(left, right);
    }
    if (filter instanceof Not) {
      Filter child = ((Not) filter).child();
      boolean plain = !(child instanceof And || child instanceof Or) && !mayBeNaN(child);
      Filter renamed = plain ? filter(child) : null;
      return renamed == null ? null : new Not(renamed);
    }
    return comparison(filter);
  }

  private Filter comparison(Filter filter) {
    String[] references = filter.references();
    String name = references.length == 1 ? path(references[0]) : null;
    if (name == null || (mayBeNaN(filter) && missesRows(filter))) return null;
    if (filter instanceof EqualTo) return new EqualTo(name, ((EqualTo) filter).value());
    if (filter instanceof EqualNullSafe) return new EqualNullSafe(name, ((EqualNullSafe) filter).value());
    if (filter instanceof GreaterThan) return new GreaterThan(name, ((GreaterThan) filter).value());
    if (filter instanceof GreaterThanOrEqual) {
      return new GreaterThanOrEqual(name, ((GreaterThanOrEqual) filter).value());
    }
    if (filter instanceof LessThan) return new LessThan(name, ((LessThan) filter).value());
    if (filter instanceof LessThanOrEqual) return new LessThanOrEqual(name, ((LessThanOrEqual) filter).value());
    if (filter instanceof In) return new In(name, ((In) filter).values());
    if (filter instanceof IsNull) return new IsNull(name);
    if (filter instanceof IsNotNull) return new IsNotNull(name);
    if (filter instanceof StringStartsWith) return new StringStartsWith(name, ((StringStartsWith) filter).value());
    return null;
  }

  /** Whether a filter is over a column of floating numbers. */
  private boolean mayBeNaN(Filter filter) {
    String[] references = filter.references();
    DataType type = references.length == 1 ? typeOf(references[0]) : null;
    return type instanceof FloatType || type instanceof DoubleType;
  }

  /** Whether Parquet would lose rows by a comparison: it tells -0.0 from 0.0, and no bound tells of NaN. */
  private static boolean missesRows(Filter filter) {
    return !(filter instanceof IsNull || filter instanceof IsNotNull);
  }

  private DataType typeOf(String attribute) {
    DataType here = table;
    Iterator names = CatalogV2Implicits$.MODULE$.parseColumnPath(attribute).iterator();
    while (names.hasNext()) {
      String name = (String) names.next();
      StructField found = here instanceof StructType ? find((StructType) here, name) : null;
      if (found == null) {
        return null;
      }
      here = found.dataType();
    }
    return here;
  }

  /** A name as Spark's Parquet filters know it: between back-ticks only where it needs them. */
  private static String quoted(String name) {
    return name.matches("[a-zA-Z_][a-zA-Z0-9_]*") ? name : "`" + name.replace("`", "``") + "`";
  }

  /** The path of a column as files have it; names are between back-ticks where there may be dots in them. */
  private String path(String attribute) {
    StructType here = table;
    StringBuilder path = new StringBuilder();
    Iterator names = CatalogV2Implicits$.MODULE$.parseColumnPath(attribute).iterator();
    while (names.hasNext()) {
      StructField found = here == null ? null : find(here, (String) names.next());
      if (found == null) {
        return null;
      }
      path.append(path.length() > 0 ? "." : "");
      path.append(quoted(nameOf(found)));
      here = found.dataType() instanceof StructType ? (StructType) found.dataType() : null;
    }
    return path.toString();
  }
}
