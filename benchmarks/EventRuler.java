import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import software.amazon.event.ruler.GenericMachine;

/**
 * event-ruler as a process that is asked for one pass at a time: `EventRuler RULES EVENTS`, both files of JSON lines.
 *
 * It loads the rules, warms up, and prints the seconds that loading took. Then, for every line that it reads, it matches
 * all events on this thread and prints the number of matches and their checksum, a sum over (event, rule) that does not
 * depend on their order.
 */
public final class EventRuler {
    /** Nanoseconds of this thread, not of the clock: a busy machine does not shorten the warm-up. */
    private static final double WARM = 10e9;

    private record Pass(long matches, long checksum) {}

    public static void main(String[] files) throws Exception {
        long started = System.nanoTime();
        GenericMachine<Integer> machine = machine(Path.of(files[0]));
        double seconds = (System.nanoTime() - started) / 1e9;
        List<String> events = Files.readAllLines(Path.of(files[1]));
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        for (long since = threads.getCurrentThreadCpuTime(); threads.getCurrentThreadCpuTime() - since < WARM; ) {
            pass(machine, events);
        }
        System.out.println(seconds);
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        while (asked.readLine() != null) {
            Pass done = pass(machine, events);
            System.out.println(done.matches + " " + Long.toUnsignedString(done.checksum));
        }
    }

    /** A rule is named by its line, counted from 0. */
    private static GenericMachine<Integer> machine(Path rules) throws Exception {
        GenericMachine<Integer> machine = GenericMachine.<Integer>builder().build();
        int number = 0;
        try (BufferedReader lines = Files.newBufferedReader(rules)) {
            for (String rule; (rule = lines.readLine()) != null; number++) {
                machine.addRule(number, rule);
            }
        }
        return machine;
    }

    private static Pass pass(GenericMachine<Integer> machine, List<String> events) throws Exception {
        long matches = 0;
        long checksum = 0;
        for (int event = 0; event < events.size(); event++) {
            for (int rule : machine.rulesForJSONEvent(events.get(event))) {
                matches++;
                checksum += mixed(event, rule);
            }
        }
        return new Pass(matches, checksum);
    }

    /** The same numbers as `found` in event_ruler.py. */
    private static long mixed(long event, long rule) {
        long mixed = event * 0x9E3779B97F4A7C15L ^ rule * 0xC2B2AE3D27D4EB4FL;
        return (mixed ^ mixed >>> 29) * 0xBF58476D1CE4E5B9L;
    }
}
