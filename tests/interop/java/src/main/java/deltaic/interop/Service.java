package deltaic.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

/** A long-running command: one JSON array per line of standard input, one JSON object as the answer. */
interface Service {
    Map<String, Object> answer(List<Object> words) throws Exception;

    /** Answers until standard input ends, {"ready": true} first; an error is an answer, too. */
    static void run(Service service, PrintWriter out) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        say(Map.of("ready", true), out);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                say(service.answer(Json.list(Json.parse(line))), out);
            } catch (Exception | StackOverflowError | AssertionError error) {
                StringWriter trace = new StringWriter();
                error.printStackTrace(new PrintWriter(trace));
                say(Map.of("failed", trace.toString()), out);
            }
        }
        // Hollow's own threads (watchers, refreshers) would keep the process alive.
        out.flush();
        System.exit(0);
    }

    private static void say(Map<String, Object> answer, PrintWriter out) {
        out.println(Json.print(answer));
        out.flush();
    }
}
