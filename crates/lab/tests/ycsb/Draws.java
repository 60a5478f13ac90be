// Counts what YCSB's own generators draw, for crates/lab/tests/key_distributions.rs to compare with.
// Prints how often each of ITEMS numbers was drawn. The counts in this folder were made so:
//   core-0.17.0.jar (site.ycsb:core) and HdrHistogram-2.1.4.jar from Maven Central, then
//   javac -cp core-0.17.0.jar Draws.java
//   java -cp .:core-0.17.0.jar:HdrHistogram-2.1.4.jar Draws zipfian 100 1000000 > zipfian.txt
//   java -cp .:core-0.17.0.jar:HdrHistogram-2.1.4.jar Draws scrambled 100 1000000 > scrambled.txt
import site.ycsb.generator.NumberGenerator;
import site.ycsb.generator.ScrambledZipfianGenerator;
import site.ycsb.generator.ZipfianGenerator;

public class Draws {
  public static void main(String[] words) {
    int items = Integer.parseInt(words[1]);
    NumberGenerator generator =
        words[0].equals("zipfian") ? new ZipfianGenerator(items) : new ScrambledZipfianGenerator(items);
    long[] counts = new long[items];
    for (int draw = Integer.parseInt(words[2]); draw > 0; draw--) {
      counts[generator.nextValue().intValue()]++;
    }
    for (int item = 0; item < items; item++) {
      System.out.print(counts[item] + (item + 1 < items ? " " : "\n"));
    }
  }
}
