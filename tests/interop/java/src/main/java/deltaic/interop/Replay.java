package deltaic.interop;

import com.netflix.hollow.core.read.engine.HollowReadStateEngine;
import com.netflix.hollow.core.schema.HollowListSchema;
import com.netflix.hollow.core.schema.HollowMapSchema;
import com.netflix.hollow.core.schema.HollowObjectSchema;
import com.netflix.hollow.core.schema.HollowSchema;
import com.netflix.hollow.core.schema.HollowSchemaParser;
import com.netflix.hollow.core.schema.HollowSetSchema;
import com.netflix.hollow.core.write.HollowBlobWriter;
import com.netflix.hollow.core.write.HollowListTypeWriteState;
import com.netflix.hollow.core.write.HollowListWriteRecord;
import com.netflix.hollow.core.write.HollowMapTypeWriteState;
import com.netflix.hollow.core.write.HollowMapWriteRecord;
import com.netflix.hollow.core.write.HollowObjectTypeWriteState;
import com.netflix.hollow.core.write.HollowObjectWriteRecord;
import com.netflix.hollow.core.write.HollowSetTypeWriteState;
import com.netflix.hollow.core.write.HollowSetWriteRecord;
import com.netflix.hollow.core.write.HollowTypeWriteState;
import com.netflix.hollow.core.write.HollowWriteRecord;
import com.netflix.hollow.core.write.HollowWriteStateEngine;
import java.io.BufferedOutputStream;
import java.io.BufferedWriter;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Replays the calls of an `ops.jsonl` on a write engine.
 *
 * Where an ordinal stands, "@7" may stand instead: the ordinal that the `add` with "id" 7 last got. A history can so be
 * made up without knowing ordinals; `DIR/ops.jsonl` then holds the same calls with the ordinals filled in.
 */
final class Replay {
    private final File folder;
    private final Map<Long, Integer> ordinals = new HashMap<>();
    private HollowWriteStateEngine engine;
    private long written = -1;

    private Replay(File folder) {
        this.folder = folder;
    }

    static void write(String[] words, PrintWriter out) throws IOException {
        File folder = new File(words[1]);
        Files.createDirectories(folder.toPath());
        Replay replay = new Replay(folder);
        Path resolved = folder.toPath().resolve("ops.jsonl");
        List<String> lines = Files.readAllLines(Path.of(words[0]), StandardCharsets.UTF_8);
        try (BufferedWriter calls = Files.newBufferedWriter(resolved, StandardCharsets.US_ASCII)) {
            int number = 0;
            for (String line : lines) {
                number++;
                Map<String, Object> call = Json.map(Json.parse(line));
                try {
                    replay.run(call, out);
                } catch (RuntimeException error) {
                    throw new IllegalStateException("line " + number + ": " + line, error);
                }
                calls.write(Json.print(call));
                calls.write('\n');
            }
        }
    }

    private void run(Map<String, Object> call, PrintWriter out) throws IOException {
        switch ((String) call.get("op")) {
            case "engine" -> engine(call);
            case "restore" -> restore(call);
            case "headerTag" -> engine.addHeaderTag((String) call.get("key"), (String) call.get("value"));
            case "removeHeaderTag" -> engine.getHeaderTags().remove(call.get("key"));
            case "targetMaxTypeShardSize" -> engine.setTargetMaxTypeShardSize((Long) call.get("bytes"));
            case "allowTypeResharding" -> engine.allowTypeResharding((Boolean) call.get("value"));
            case "focusHoleFillInFewestShards" -> engine.setFocusHoleFillInFewestShards((Boolean) call.get("value"));
            case "add" -> add(call);
            case "addAllFromPreviousCycle" -> engine.addAllObjectsFromPreviousCycle();
            case "removeFromThisCycle" -> {
                int ordinal = ordinal(call.get("ordinal"));
                call.put("ordinal", (long) ordinal);
                engine.getTypeState((String) call.get("type")).removeOrdinalFromThisCycle(ordinal);
            }
            case "write" -> writeVersion(call, out);
            case "nextCycle" -> engine.prepareForNextCycle();
            default -> throw new IllegalArgumentException("no op " + call.get("op"));
        }
    }

    private void engine(Map<String, Object> call) throws IOException {
        if (Boolean.TRUE.equals(call.get("partitionedOrdinalMap"))) {
            throw new UnsupportedOperationException("this release of Hollow has no partitioned ordinal map");
        }
        engine = new HollowWriteStateEngine();
        written = -1;
        Map<String, Object> pinned = Json.map(call.getOrDefault("pinnedShards", Map.of()));
        for (HollowSchema schema : HollowSchemaParser.parseCollectionOfSchemas((String) call.get("schemas"))) {
            Object shards = pinned.get(schema.getName());
            engine.addTypeState(typeState(schema, shards == null ? -1 : (int) (long) (Long) shards));
        }
    }

    private static HollowTypeWriteState typeState(HollowSchema schema, int shards) {
        return switch (schema.getSchemaType()) {
            case OBJECT -> new HollowObjectTypeWriteState((HollowObjectSchema) schema, shards);
            case LIST -> new HollowListTypeWriteState((HollowListSchema) schema, shards);
            case SET -> new HollowSetTypeWriteState((HollowSetSchema) schema, shards);
            case MAP -> new HollowMapTypeWriteState((HollowMapSchema) schema, shards);
        };
    }

    private void restore(Map<String, Object> call) throws IOException {
        written = (Long) call.get("fromVersion");
        Chain chain = new Chain(true);
        chain.read(new File(folder, "snapshot-" + written));
        HollowReadStateEngine state = chain.engine;
        engine.restoreFrom(state);
    }

    private void add(Map<String, Object> call) {
        String type = (String) call.get("type");
        int ordinal = engine.add(type, record(engine.getSchema(type), call));
        Object known = call.put("ordinal", (long) ordinal);
        if (known != null && (Long) known != ordinal) {
            throw new IllegalStateException("ordinal " + ordinal + " came back instead of " + known);
        }
        if (call.remove("id") instanceof Long id) {
            ordinals.put(id, ordinal);
        }
    }

    private HollowWriteRecord record(HollowSchema schema, Map<String, Object> call) {
        return switch (schema.getSchemaType()) {
            case OBJECT -> object((HollowObjectSchema) schema, Json.map(call.get("fields")));
            case LIST -> {
                HollowListWriteRecord list = new HollowListWriteRecord();
                for (Object element : resolve(call, "elements")) {
                    list.addElement((int) (long) (Long) element);
                }
                yield list;
            }
            case SET -> {
                HollowSetWriteRecord set = new HollowSetWriteRecord();
                if (call.containsKey("elementsWithHashes")) {
                    for (Object pair : resolve(call, "elementsWithHashes")) {
                        set.addElement((int) (long) (Long) Json.list(pair).get(0),
                                (int) (long) (Long) Json.list(pair).get(1));
                    }
                } else {
                    for (Object element : resolve(call, "elements")) {
                        set.addElement((int) (long) (Long) element);
                    }
                }
                yield set;
            }
            case MAP -> {
                HollowMapWriteRecord map = new HollowMapWriteRecord();
                for (Object pair : resolve(call, "entries")) {
                    map.addEntry((int) (long) (Long) Json.list(pair).get(0),
                            (int) (long) (Long) Json.list(pair).get(1));
                }
                yield map;
            }
        };
    }

    private HollowWriteRecord object(HollowObjectSchema schema, Map<String, Object> fields) {
        HollowObjectWriteRecord record = new HollowObjectWriteRecord(schema);
        for (Map.Entry<String, Object> entry : fields.entrySet()) {
            String name = entry.getKey();
            Object value = entry.getValue();
            if (value == null) {
                continue;
            }
            if (value instanceof Map) {
                record.setNull(name);
                continue;
            }
            switch (schema.getFieldType(name)) {
                case INT -> record.setInt(name, (int) (long) (Long) value);
                case LONG -> record.setLong(name, (Long) value);
                case BOOLEAN -> record.setBoolean(name, (Boolean) value);
                case FLOAT -> record.setFloat(name,
                        Float.intBitsToFloat(HexFormat.fromHexDigits((String) value)));
                case DOUBLE -> record.setDouble(name,
                        Double.longBitsToDouble(HexFormat.fromHexDigitsToLong((String) value)));
                case STRING -> record.setString(name, (String) value);
                case BYTES -> record.setBytes(name, HexFormat.of().parseHex((String) value));
                case REFERENCE -> {
                    entry.setValue((long) ordinal(value));
                    record.setReference(name, ordinal(value));
                }
            }
        }
        return record;
    }

    /** The list under a key with every "@id" replaced, in the call itself too. */
    private List<Object> resolve(Map<String, Object> call, String key) {
        List<Object> result = new ArrayList<>();
        for (Object item : Json.list(call.get(key))) {
            if (item instanceof List) {
                List<Object> pair = new ArrayList<>();
                for (Object side : Json.list(item)) {
                    pair.add((long) ordinal(side));
                }
                result.add(pair);
            } else {
                result.add((long) ordinal(item));
            }
        }
        call.put(key, result);
        return result;
    }

    private int ordinal(Object value) {
        if (value instanceof String name) {
            Integer ordinal = ordinals.get(Long.valueOf(name.substring(1)));
            if (ordinal == null) {
                throw new IllegalArgumentException("nothing was added under " + name);
            }
            return ordinal;
        }
        return (int) (long) (Long) value;
    }

    private void writeVersion(Map<String, Object> call, PrintWriter out) throws IOException {
        long version = (Long) call.get("version");
        engine.overridePreviousStateRandomizedTag(HexFormat.fromHexDigitsToLong((String) call.get("previousTag")));
        engine.overrideNextStateRandomizedTag(HexFormat.fromHexDigitsToLong((String) call.get("nextTag")));
        HollowBlobWriter writer = new HollowBlobWriter(engine);
        try (OutputStream blob = open("snapshot-" + version)) {
            writer.writeSnapshot(blob);
        }
        if (written >= 0) {
            try (OutputStream blob = open("delta-" + written + "-" + version)) {
                writer.writeDelta(blob);
            }
            try (OutputStream blob = open("reversedelta-" + version + "-" + written)) {
                writer.writeReverseDelta(blob);
            }
        }
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("version", version);
        line.put("previous", written < 0 ? null : written);
        out.println(Json.print(line));
        written = version;
    }

    private OutputStream open(String name) throws IOException {
        return new BufferedOutputStream(new FileOutputStream(new File(folder, name)), 1 << 16);
    }
}
