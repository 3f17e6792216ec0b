package distributary;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.mutable.ArrayBuffer;

/**
 * What the filters of a query say about whole files.
 *
 * <p>A condition is looked at for being TRUE; a NOT above it is carried down (De Morgan), so `negated` asks
 * whether the condition may be FALSE instead. A condition over partition columns alone is evaluated as it is,
 * at any depth; comparisons of a data column with literals are decided by statistics; whatever else there is
 * may match.
 */
public class SkippingRules {
  private static final FileTest UNKNOWN = new FileTest.Constant(true);
  private static final FileTest NEVER = new FileTest.Constant(false);

  private final StructType partitionSchema;
  private final FileColumn[] partition;
  private FileStatistics statistics;

  public SkippingRules(StructType partitionSchema, FileColumn[] partition) {
    this.partitionSchema = partitionSchema;
    this.partition = partition;
  }

  /** The data columns that filters name. */
  public Set columns(scala.collection.immutable.Seq filters) {
    Set columns = new LinkedHashSet();
    scala.collection.Iterator each = filters.iterator();
    while (each.hasNext()) {
      collect((Expression) each.next(), columns);
    }
    return columns;
  }

  /** The test for a list of filters, all of which must hold. */
  public FileTest all(scala.collection.immutable.Seq filters, FileStatistics found) {
    statistics = found;
    FileTest all = UNKNOWN;
    scala.collection.Iterator each = filters.iterator();
    while (each.hasNext()) {
      FileTest next = test((Expression) each.next(), false);
      all = all == UNKNOWN ? next : new FileTest.Both(all, next);
    }
    return all;
  }

  private void collect(Expression condition, Set columns) {
    String path = pathOf(condition);
    if (path != null) {
      columns.add(path);
      return;
    }
    scala.collection.Iterator each = condition.children().iterator();
    while (each.hasNext()) {
      collect((Expression) each.next(), columns);
    }
  }

  private FileTest test(Expression condition, boolean negated) {
    if (ofPartitions(condition)) {
      ArrayBuffer filters = new ArrayBuffer();
      filters.append(negated ? new Not(condition) : condition);
      return new FileTest.OfPartition(new PartitionTest(filters.toSeq(), partitionSchema, partition));
    }
    if (condition instanceof Not) {
      return test(((Not) condition).child(), !negated);
    }
    if (condition instanceof And) {
      And and = (And) condition;
      return joined(test((Expression) and.left(), negated), test((Expression) and.right(), negated), !negated);
    }
    if (condition instanceof Or) {
      Or or = (Or) condition;
      return joined(test((Expression) or.left(), negated), test((Expression) or.right(), negated), negated);
    }
    if (condition instanceof Literal) {
      Object value = ((Literal) condition).value();
      return Boolean.valueOf(!negated).equals(value) ? UNKNOWN : NEVER;
    }
    return leaf(condition, negated);
  }

  private static FileTest joined(FileTest left, FileTest right, boolean both) {
    return both ? (FileTest) new FileTest.Both(left, right) : (FileTest) new FileTest.Either(left, right);
  }

  private FileTest leaf(Expression condition, boolean negated) {
    if (condition instanceof IsNull) {
      return nullTest((Expression) ((IsNull) condition).child(), !negated);
    }
    if (condition instanceof IsNotNull) {
      return nullTest((Expression) ((IsNotNull) condition).child(), negated);
    }
    if (condition instanceof BinaryComparison) {
      return comparison((BinaryComparison) condition, negated);
    }
    if (condition instanceof In && !negated) {
      return oneOf((Expression) ((In) condition).value(), literals(((In) condition).list()));
    }
    if (condition instanceof InSet && !negated) {
      return oneOf((Expression) ((InSet) condition).child(), members((InSet) condition));
    }
    if (condition instanceof StartsWith && !negated) {
      return prefix((Expression) ((StartsWith) condition).left(), (Expression) ((StartsWith) condition).right());
    }
    if (condition.dataType() instanceof BooleanType) {
      return equal(condition, Boolean.valueOf(!negated));
    }
    return UNKNOWN;
  }

  private FileTest nullTest(Expression column, boolean wanted) {
    ColumnStatistics found = statisticsOf(column);
    if (found == null) {
      return UNKNOWN;
    }
    return wanted ? (FileTest) new FileTest.IsNull(found) : (FileTest) new FileTest.IsNotNull(found);
  }

  private FileTest comparison(BinaryComparison condition, boolean negated) {
    Expression left = (Expression) condition.left();
    Expression right = (Expression) condition.right();
    boolean nullSafe = condition instanceof EqualNullSafe;
    boolean flipped = left instanceof Literal;
    Expression column = flipped ? right : left;
    Expression other = flipped ? left : right;
    if (!(other instanceof Literal) || !other.dataType().equals(column.dataType())) {
      return UNKNOWN;
    }
    Object value = ((Literal) other).value();
    if (value == null) {
      return nullSafe ? nullTest(column, !negated) : NEVER;
    }
    if (nullSafe || condition instanceof EqualTo) {
      return negated ? different(column, value, nullSafe) : equal(column, value);
    }
    if (condition instanceof LessThan || condition instanceof LessThanOrEqual) {
      return limit(column, value, !flipped, condition instanceof LessThanOrEqual, negated);
    }
    if (condition instanceof GreaterThan || condition instanceof GreaterThanOrEqual) {
      return limit(column, value, flipped, condition instanceof GreaterThanOrEqual, negated);
    }
    return UNKNOWN;
  }

  /** A comparison with a limit: `below` and `inclusive` as it is written, turned around where negated. */
  private FileTest limit(Expression column, Object value, boolean below, boolean inclusive, boolean negated) {
    ColumnStatistics found = boundsOf(column);
    DataType type = column.dataType();
    if (found == null) {
      return UNKNOWN;
    }
    if (below != negated) {
      return new FileTest.Below(found, value, inclusive != negated, ColumnStatistics.order(type));
    }
    return ColumnStatistics.mayBeNaN(type)
        ? (FileTest) new FileTest.IsNotNull(found)
        : (FileTest) new FileTest.Above(found, value, inclusive != negated, ColumnStatistics.order(type));
  }

  private FileTest equal(Expression column, Object value) {
    ArrayList values = new ArrayList();
    values.add(value);
    return oneOf(column, values);
  }

  /** NULL among the values matches nothing; NaN lies outside all bounds, so that nothing is known then. */
  private FileTest oneOf(Expression column, ArrayList values) {
    ColumnStatistics found = boundsOf(column);
    if (found == null || values == null) {
      return UNKNOWN;
    }
    ArrayList known = new ArrayList();
    for (int at = 0; at < values.size(); at++) {
      Object value = values.get(at);
      if (isNaN(value)) {
        return new FileTest.IsNotNull(found);
      }
      if (value != null) {
        known.add(value);
      }
    }
    if (known.isEmpty()) {
      return NEVER;
    }
    return new FileTest.OneOf(found, known.toArray(), ColumnStatistics.order(column.dataType()));
  }

  private FileTest different(Expression column, Object value, boolean nullsToo) {
    ColumnStatistics found = boundsOf(column);
    if (found == null || ColumnStatistics.mayBeNaN(column.dataType())) {
      return UNKNOWN;
    }
    return new FileTest.Other(found, value, nullsToo, ColumnStatistics.order(column.dataType()));
  }

  private FileTest prefix(Expression column, Expression prefix) {
    ColumnStatistics found = boundsOf(column);
    if (found == null || !(prefix instanceof Literal) || !prefix.dataType().equals(column.dataType())) {
      return UNKNOWN;
    }
    Object text = ((Literal) prefix).value();
    return text == null ? NEVER : new FileTest.Prefix(found, (UTF8String) text);
  }

  private static boolean isNaN(Object value) {
    return (value instanceof Double && ((Double) value).isNaN())
        || (value instanceof Float && ((Float) value).isNaN());
  }

  /** The values of an IN list, or null where one of them is no literal. */
  private static ArrayList literals(scala.collection.immutable.Seq list) {
    ArrayList values = new ArrayList();
    scala.collection.Iterator each = list.iterator();
    while (each.hasNext()) {
      Expression next = (Expression) each.next();
      if (!(next instanceof Literal)) {
        return null;
      }
      values.add(((Literal) next).value());
    }
    return values;
  }

  private static ArrayList members(InSet condition) {
    ArrayList values = new ArrayList();
    scala.collection.Iterator each = condition.hset().iterator();
    while (each.hasNext()) {
      values.add(each.next());
    }
    return values;
  }

  private ColumnStatistics statisticsOf(Expression column) {
    String path = pathOf(column);
    return path == null ? null : statistics.column(path);
  }

  private ColumnStatistics boundsOf(Expression column) {
    ColumnStatistics found = statisticsOf(column);
    return found != null && found.bounds(column.dataType()) ? found : null;
  }

  /** The path of a data column, or null where an expression is none. */
  private String pathOf(Expression column) {
    if (column instanceof AttributeReference) {
      AttributeReference attribute = (AttributeReference) column;
      return isMetadata(attribute) || isPartition(attribute) ? null : attribute.name();
    }
    if (column instanceof GetStructField) {
      GetStructField field = (GetStructField) column;
      String parent = pathOf((Expression) field.child());
      StructField[] fields = ((StructType) ((Expression) field.child()).dataType()).fields();
      return parent == null ? null : parent + FileStatistics.INSIDE + fields[field.ordinal()].name();
    }
    return null;
  }

  private boolean ofPartitions(Expression condition) {
    scala.collection.Iterator each = condition.references().iterator();
    if (!each.hasNext() || !condition.deterministic() || hasPlan(condition)) {
      return false;
    }
    while (each.hasNext()) {
      Object reference = each.next();
      if (!(reference instanceof AttributeReference)
          || isMetadata((AttributeReference) reference)
          || !isPartition((AttributeReference) reference)) {
        return false;
      }
    }
    return true;
  }

  private static boolean hasPlan(Expression condition) {
    boolean found = condition instanceof PlanExpression;
    scala.collection.Iterator each = condition.children().iterator();
    while (!found && each.hasNext()) {
      found = hasPlan((Expression) each.next());
    }
    return found;
  }

  /** Columns that Spark makes of a file itself may be called like a column of the table. */
  private static boolean isMetadata(AttributeReference attribute) {
    return attribute.metadata().contains("__metadata_col");
  }

  private boolean isPartition(AttributeReference attribute) {
    StructField[] fields = partitionSchema.fields();
    for (int at = 0; at < fields.length; at++) {
      if (fields[at].name().equalsIgnoreCase(attribute.name())) {
        return true;
      }
    }
    return false;
  }
}
