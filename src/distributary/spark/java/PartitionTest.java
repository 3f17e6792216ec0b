package distributary;

import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BindReferences$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.package$AttributeSeq;
import org.apache.spark.sql.catalyst.types.DataTypeUtils$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;

/** Filters over partition columns alone, evaluated exactly, by Catalyst, for each file. */
public class PartitionTest {
  private final FileColumn[] columns;
  private final boolean[] used;
  private final Object[] values;
  private final GenericInternalRow row;
  private BasePredicate predicate;

  public PartitionTest(Seq filters, StructType schema, FileColumn[] columns) {
    this.columns = columns;
    used = new boolean[columns.length];
    values = new Object[columns.length];
    row = new GenericInternalRow(values);
    Expression all = null;
    Iterator each = filters.iterator();
    while (each.hasNext()) {
      Expression next = (Expression) each.next();
      all = all == null ? next : new And(all, next);
    }
    if (all != null) {
      predicate = Predicate$.MODULE$.createInterpreted(bound(all, schema));
      predicate.initialize(0);
    }
  }

  /** The filter with its columns as positions in the row of partition values. */
  private Expression bound(Expression filter, StructType schema) {
    StructField[] fields = schema.fields();
    Attribute[] attributes = new Attribute[fields.length];
    Iterator references = filter.references().iterator();
    while (references.hasNext()) {
      Attribute reference = (Attribute) references.next();
      for (int at = 0; at < fields.length; at++) {
        if (fields[at].name().equalsIgnoreCase(reference.name())) {
          attributes[at] = reference;
          used[at] = true;
        }
      }
    }
    ArrayBuffer input = new ArrayBuffer();
    for (int at = 0; at < fields.length; at++) {
      input.append(attributes[at] != null ? attributes[at] : DataTypeUtils$.MODULE$.toAttribute(fields[at]));
    }
    return BindReferences$.MODULE$.bindReference(filter, new package$AttributeSeq(input.toSeq()), false);
  }

  /** Whether the filters are true for the partition values of a file. */
  public boolean matches(int file) {
    if (predicate == null) {
      return true;
    }
    for (int at = 0; at < values.length; at++) {
      if (used[at]) {
        values[at] = columns[at].get(file);
      }
    }
    return predicate.eval(row);
  }
}
