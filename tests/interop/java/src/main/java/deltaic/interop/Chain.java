package deltaic.interop;

import com.netflix.hollow.core.read.HollowBlobInput;
import com.netflix.hollow.core.read.OptionalBlobPartInput;
import com.netflix.hollow.core.read.engine.HollowBlobReader;
import com.netflix.hollow.core.read.engine.HollowReadStateEngine;
import java.io.BufferedInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A read engine that is led along blobs; the optional parts that lie beside a blob are read with it. */
final class Chain {
    private static final Pattern FORWARD = Pattern.compile("delta-(\\d+)-(\\d+)");

    final HollowReadStateEngine engine = new HollowReadStateEngine(true);
    private final HollowBlobReader reader = new HollowBlobReader(engine);
    private final boolean withParts;
    private boolean loaded;
    private boolean withStates;

    Chain(boolean withParts) {
        this.withParts = withParts;
    }

    void read(File blob) throws IOException {
        try (HollowBlobInput main = HollowBlobInput.serial(
                new BufferedInputStream(new FileInputStream(blob), 1 << 16));
                OptionalBlobPartInput parts = parts(blob)) {
            if (!loaded) {
                reader.readSnapshot(main, parts);
            } else {
                reader.applyDelta(main, parts);
            }
        }
        loaded = true;
    }

    /** The blob kind_part-rest for a blob kind-rest. */
    private OptionalBlobPartInput parts(File blob) throws IOException {
        OptionalBlobPartInput parts = new OptionalBlobPartInput();
        int dash = blob.getName().indexOf('-');
        if (!withParts || dash < 0) {
            return parts;
        }
        String kind = blob.getName().substring(0, dash);
        String rest = blob.getName().substring(dash);
        File[] beside = blob.getAbsoluteFile().getParentFile().listFiles();
        for (File file : beside == null ? new File[0] : beside) {
            String name = file.getName();
            if (name.startsWith(kind + "_") && name.endsWith(rest)) {
                parts.addInput(name.substring(kind.length() + 1, name.length() - rest.length()), file);
            }
        }
        return parts;
    }

    static void dump(String[] words, PrintWriter out) throws IOException {
        boolean withParts = true;
        boolean ghosts = false;
        Chain chain = null;
        for (String word : words) {
            if (word.equals("--no-parts")) {
                withParts = false;
            } else if (word.equals("--ghosts")) {
                ghosts = true;
            } else {
                chain = chain == null ? new Chain(withParts) : chain;
                chain.read(new File(word));
            }
        }
        if (chain == null) {
            throw new IllegalArgumentException("dump needs a snapshot");
        }
        Map<String, Object> state = StateJson.state(chain.engine);
        if (ghosts) {
            state.put("ghosts", StateJson.ghosts(chain.engine));
        }
        out.println(Json.print(state));
    }

    static void checksum(String[] words, PrintWriter out) throws IOException {
        Chain chain = new Chain(true);
        for (String word : words) {
            chain.step(new File(word), out);
        }
    }

    static void follow(String[] words, PrintWriter out) throws IOException {
        boolean states = words[0].equals("--states");
        int first = states ? 1 : 0;
        File folder = new File(words[first]);
        int version = words.length > first + 1 ? Integer.parseInt(words[first + 1]) : 1;
        Chain chain = new Chain(true);
        chain.withStates = states;
        chain.step(new File(folder, "snapshot-" + version), out);
        List<File> back = new ArrayList<>();
        for (int next = after(folder, version); next >= 0; next = after(folder, version)) {
            chain.step(new File(folder, "delta-" + version + "-" + next), out);
            File reverse = new File(folder, "reversedelta-" + next + "-" + version);
            if (reverse.exists()) {
                back.add(0, reverse);
            }
            version = next;
        }
        for (File blob : back) {
            chain.step(blob, out);
        }
    }

    private static int after(File folder, int version) {
        String[] names = folder.list();
        for (String name : names == null ? new String[0] : names) {
            Matcher match = FORWARD.matcher(name);
            if (match.matches() && Integer.parseInt(match.group(1)) == version) {
                return Integer.parseInt(match.group(2));
            }
        }
        return -1;
    }

    private void step(File blob, PrintWriter out) throws IOException {
        read(blob);
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("blob", blob.getName());
        if (withStates) {
            line.putAll(StateJson.state(engine));
            line.put("ghosts", StateJson.ghosts(engine));
        } else {
            line.putAll(StateJson.header(engine));
        }
        out.println(Json.print(line));
    }
}
