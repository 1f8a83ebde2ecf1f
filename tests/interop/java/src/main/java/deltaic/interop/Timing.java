package deltaic.interop;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** CPU time of the whole process (compiler and collector included) and wall time, per round and named figure. */
final class Timing {
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private static final long TICK_NANOS = 10_000_000;

    private final Map<String, List<Double>> cpu = new LinkedHashMap<>();
    private final Map<String, List<Double>> wall = new LinkedHashMap<>();
    private boolean counting;

    interface Work {
        void run() throws Exception;
    }

    /**
     * Nanoseconds of CPU of all threads alive. The process clock ticks only every 10 ms, but counts threads that ended;
     * so it stands only where it says more than this one by over a tick.
     */
    private static long threadNanos() {
        long total = 0;
        try (DirectoryStream<Path> threads = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
            for (Path thread : threads) {
                String statistics = Files.readString(thread.resolve("schedstat"));
                total += Long.parseLong(statistics.substring(0, statistics.indexOf(' ')));
            }
            return total;
        } catch (IOException error) {
            return -1;
        }
    }

    /** Rounds before this call only warm up. */
    void startCounting() {
        counting = true;
    }

    /** Runs the work once and books its time divided by `operations`, in nanoseconds. */
    void measure(String what, long operations, Work work) throws Exception {
        long threadsBefore = threadNanos();
        long cpuBefore = SYSTEM.getProcessCpuTime();
        long wallBefore = System.nanoTime();
        work.run();
        long wallNanos = System.nanoTime() - wallBefore;
        long cpuNanos = SYSTEM.getProcessCpuTime() - cpuBefore;
        long threadNanos = threadNanos() - threadsBefore;
        if (threadsBefore >= 0 && cpuNanos - threadNanos <= TICK_NANOS) {
            cpuNanos = threadNanos;
        }
        if (counting) {
            cpu.computeIfAbsent(what, key -> new ArrayList<>()).add((double) cpuNanos / operations);
            wall.computeIfAbsent(what, key -> new ArrayList<>()).add((double) wallNanos / operations);
        }
    }

    /** One line per figure: {"what", "unit": "ns", "cpu": [...], "wall": [...]}. */
    void print(PrintWriter out) {
        for (String what : cpu.keySet()) {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("what", what);
            line.put("unit", "ns");
            line.put("cpu", cpu.get(what));
            line.put("wall", wall.get(what));
            out.println(Json.print(line));
        }
    }

    static void printBytes(PrintWriter out, String what, long bytes) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("what", what);
        line.put("unit", "bytes");
        line.put("value", bytes);
        out.println(Json.print(line));
    }

    static long usedHeap() throws InterruptedException {
        Runtime runtime = Runtime.getRuntime();
        for (int pass = 0; pass < 4; pass++) {
            System.gc();
            Thread.sleep(20);
        }
        return runtime.totalMemory() - runtime.freeMemory();
    }
}
