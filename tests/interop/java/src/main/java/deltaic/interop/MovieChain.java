package deltaic.interop;

import com.netflix.hollow.core.write.HollowBlobWriter;
import com.netflix.hollow.core.write.HollowWriteStateEngine;
import com.netflix.hollow.core.write.objectmapper.HollowObjectMapper;
import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.util.LinkedHashMap;
import java.util.Map;

/** Writes the catalogue's snapshots of the first and last version, and all deltas and reverse deltas between. */
final class MovieChain {
    private MovieChain() {
    }

    static void write(String[] words, PrintWriter out) throws IOException {
        Movies catalogue = new Movies(Integer.parseInt(words[0]));
        int last = Integer.parseInt(words[1]);
        File folder = new File(words[2]);
        Files.createDirectories(folder.toPath());
        HollowWriteStateEngine engine = new HollowWriteStateEngine();
        HollowObjectMapper mapper = new HollowObjectMapper(engine);
        HollowBlobWriter writer = new HollowBlobWriter(engine);
        populate(mapper, catalogue);
        engine.overrideNextStateRandomizedTag(Movies.tag(0));
        store(folder, "snapshot-0", writer::writeSnapshot, out);
        for (int version = 1; version <= last; version++) {
            engine.prepareForNextCycle();
            catalogue.advance();
            populate(mapper, catalogue);
            engine.overrideNextStateRandomizedTag(Movies.tag(version));
            int before = version - 1;
            store(folder, "delta-" + before + "-" + version, writer::writeDelta, out);
            store(folder, "reversedelta-" + version + "-" + before, writer::writeReverseDelta, out);
        }
        if (last > 0) {
            store(folder, "snapshot-" + last, writer::writeSnapshot, out);
        }
    }

    static void populate(HollowObjectMapper mapper, Movies catalogue) {
        for (Movies.Movie movie : catalogue.movies()) {
            if (movie != null) {
                mapper.add(movie);
            }
        }
    }

    interface Blob {
        void write(OutputStream out) throws IOException;
    }

    private static void store(File folder, String name, Blob blob, PrintWriter out) throws IOException {
        File file = new File(folder, name);
        try (OutputStream stream = new BufferedOutputStream(new FileOutputStream(file), 1 << 16)) {
            blob.write(stream);
        }
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("blob", name);
        line.put("bytes", file.length());
        out.println(Json.print(line));
    }
}
