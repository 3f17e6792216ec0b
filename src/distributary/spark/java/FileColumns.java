package distributary;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;

/** Columns of one value a file, one after the other in the bytes that Python hands over. */
public class FileColumns {
  /** How many files there are. */
  public final int count;
  private final ByteBuffer source;

  private FileColumns(byte[] bytes) {
    source = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    count = source.getInt();
  }

  /** Takes the bytes themselves, or the name of a file that holds them, which is deleted. */
  public static FileColumns open(Object handed) {
    if (handed instanceof byte[]) {
      return new FileColumns((byte[]) handed);
    }
    Path file = Paths.get((String) handed, new String[0]);
    try {
      byte[] bytes = Files.readAllBytes(file);
      Files.delete(file);
      return new FileColumns(bytes);
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  /** The next column. */
  public FileColumn next() {
    return new FileColumn(source);
  }
}
