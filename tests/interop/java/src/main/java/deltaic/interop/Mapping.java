package deltaic.interop;

import com.netflix.hollow.core.read.HollowBlobInput;
import com.netflix.hollow.core.read.engine.HollowBlobReader;
import com.netflix.hollow.core.read.engine.HollowReadStateEngine;
import com.netflix.hollow.core.write.HollowBlobWriter;
import com.netflix.hollow.core.write.HollowWriteStateEngine;
import com.netflix.hollow.core.write.objectmapper.HollowObjectMapper;
import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Runs objects through Hollow's object mapper, one version per line of a file:
 * {"tag": hexadecimal, "rows": [...], "restart": true} writes snapshot, delta and reverse delta.
 */
final class Mapping {
    private Mapping() {
    }

    static void write(String[] words, PrintWriter out) throws IOException {
        File folder = new File(words[1]);
        Files.createDirectories(folder.toPath());
        HollowWriteStateEngine engine = null;
        HollowObjectMapper mapper = null;
        int version = 0;
        for (String line : Files.readAllLines(Path.of(words[0]), StandardCharsets.UTF_8)) {
            Map<String, Object> step = Json.map(Json.parse(line));
            boolean restart = Boolean.TRUE.equals(step.get("restart"));
            if (engine == null || restart) {
                engine = new HollowWriteStateEngine();
                mapper = new HollowObjectMapper(engine);
                mapper.initializeTypeState(Twin.Movie.class);
                if (restart) {
                    engine.restoreFrom(read(new File(folder, "snapshot-" + version)));
                }
            } else {
                engine.prepareForNextCycle();
            }
            engine.overrideNextStateRandomizedTag(Long.parseUnsignedLong((String) step.get("tag"), 16));
            List<Object> ordinals = new ArrayList<>();
            for (Twin.Movie movie : Rows.all(Twin.Movie.class, step.get("rows"))) {
                ordinals.add((long) mapper.add(movie));
            }
            HollowBlobWriter writer = new HollowBlobWriter(engine);
            int before = version++;
            store(folder, "snapshot-" + version, writer::writeSnapshot);
            if (before > 0) {
                store(folder, "delta-" + before + "-" + version, writer::writeDelta);
                store(folder, "reversedelta-" + version + "-" + before, writer::writeReverseDelta);
            }
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("version", (long) version);
            answer.put("ordinals", ordinals);
            out.println(Json.print(answer));
        }
    }

    private static HollowReadStateEngine read(File snapshot) throws IOException {
        HollowReadStateEngine engine = new HollowReadStateEngine(true);
        try (HollowBlobInput input = HollowBlobInput.serial(new FileInputStream(snapshot))) {
            new HollowBlobReader(engine).readSnapshot(input);
        }
        return engine;
    }

    private static void store(File folder, String name, MovieChain.Blob blob) throws IOException {
        try (OutputStream stream = new BufferedOutputStream(new FileOutputStream(new File(folder, name)), 1 << 16)) {
            blob.write(stream);
        }
    }
}
