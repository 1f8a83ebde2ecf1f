package deltaic.interop;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.logging.LogManager;

/**
 * Java Hollow beside deltaic. One command per run, or with `batch` one JSON array of arguments per line of standard
 * input, each answered by its lines of output and a last line {"done":true} or {"failed":...}.
 */
public final class Main {
    private static final String USAGE = """
            version                              Hollow's and Java's versions
            dump [--no-parts] [--ghosts] BLOB... State JSON after a snapshot and any number of deltas
            checksum BLOB...                     tag and checksum after each blob
            follow [--states] DIR [FIRST]        snapshot, all deltas forward, all reverse deltas back
            write OPS DIR                        replay calls on a write engine and write the blobs
            map STEPS DIR                        run objects of the twin model through the object mapper
            consume [--watch] DIR                a service that follows a chain, led from standard input
            produce [--incremental] DIR CLASS    a service that publishes films, led from standard input
            movies N VERSIONS DIR                write the movie catalogue's chain through the object mapper
            bench-read DIR [ROUNDS]              the read figures on a chain of the movie catalogue
            bench-index DIR [ROUNDS] [prefix]    the index figures on snapshot-0 of the movie catalogue
            bench-write N [ROUNDS]               the write figures of the movie catalogue
            batch                                commands from standard input
            """;

    private Main() {
    }

    public static void main(String[] arguments) throws Exception {
        LogManager.getLogManager().reset();
        PrintWriter out = new PrintWriter(
                new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.US_ASCII)));
        if (arguments.length == 1 && arguments[0].equals("batch")) {
            batch(out);
            return;
        }
        try {
            run(arguments, out);
        } catch (IllegalArgumentException error) {
            out.flush();
            System.err.println(error.getMessage());
            System.exit(2);
        } finally {
            out.flush();
        }
    }

    private static void batch(PrintWriter out) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> end = new LinkedHashMap<>();
            try {
                List<Object> words = Json.list(Json.parse(line));
                run(words.toArray(new String[0]), out);
                end.put("done", true);
            } catch (Exception | StackOverflowError | AssertionError error) {
                StringWriter trace = new StringWriter();
                error.printStackTrace(new PrintWriter(trace));
                end.put("failed", trace.toString());
            }
            out.println(Json.print(end));
            out.flush();
        }
    }

    private static void run(String[] words, PrintWriter out) throws Exception {
        if (words.length == 0) {
            throw new IllegalArgumentException(USAGE);
        }
        String[] rest = Arrays.copyOfRange(words, 1, words.length);
        switch (words[0]) {
            case "version" -> version(out);
            case "dump" -> Chain.dump(rest, out);
            case "checksum" -> Chain.checksum(rest, out);
            case "follow" -> Chain.follow(rest, out);
            case "write" -> Replay.write(rest, out);
            case "map" -> Mapping.write(rest, out);
            case "consume" -> Service.run(Follower.open(rest), out);
            case "produce" -> Service.run(Publisher.open(rest), out);
            case "movies" -> MovieChain.write(rest, out);
            case "bench-read" -> ReadBench.run(rest, out);
            case "bench-index" -> IndexBench.run(rest, out);
            case "bench-write" -> WriteBench.run(rest, out);
            default -> throw new IllegalArgumentException("no command " + words[0] + "\n" + USAGE);
        }
    }

    private static void version(PrintWriter out) {
        String jar = com.netflix.hollow.core.HollowStateEngine.class.getProtectionDomain().getCodeSource()
                .getLocation().getPath();
        String name = jar.substring(jar.lastIndexOf('/') + 1).replace("hollow-", "").replace(".jar", "");
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("hollow", name);
        answer.put("java", System.getProperty("java.version"));
        out.println(Json.print(answer));
    }
}
