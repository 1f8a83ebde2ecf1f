package deltaic.interop;

import com.netflix.hollow.core.memory.encoding.HashCodes;
import com.netflix.hollow.core.read.engine.HollowReadStateEngine;
import com.netflix.hollow.core.read.engine.HollowTypeReadState;
import com.netflix.hollow.core.read.engine.list.HollowListTypeReadState;
import com.netflix.hollow.core.read.engine.map.HollowMapTypeReadState;
import com.netflix.hollow.core.read.engine.object.HollowObjectTypeReadState;
import com.netflix.hollow.core.read.engine.set.HollowSetTypeReadState;
import com.netflix.hollow.core.schema.HollowObjectSchema;
import com.netflix.hollow.tools.checksum.HollowChecksum;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

/** What a read engine holds, as the State JSON of the recorded fixtures. */
final class StateJson {
    private StateJson() {
    }

    static Map<String, Object> state(HollowReadStateEngine engine) {
        Map<String, Object> result = header(engine);
        result.put("headerTags", new TreeMap<>(engine.getHeaderTags()));
        Map<String, Object> types = new LinkedHashMap<>();
        for (String name : new TreeSet<>(engine.getAllTypes())) {
            types.put(name, type(engine.getTypeState(name)));
        }
        result.put("types", types);
        return result;
    }

    static Map<String, Object> header(HollowReadStateEngine engine) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("randomizedTag", HexFormat.of().toHexDigits(engine.getCurrentRandomizedTag()));
        result.put("checksum", (long) HollowChecksum.forStateEngine(engine).intValue());
        return result;
    }

    /** Per type the records that the last blob removed and that are still readable. */
    static Map<String, Object> ghosts(HollowReadStateEngine engine) {
        Map<String, Object> result = new TreeMap<>();
        for (HollowTypeReadState type : engine.getTypeStates()) {
            BitSet gone = (BitSet) type.getPreviousOrdinals().clone();
            gone.andNot(type.getPopulatedOrdinals());
            Map<String, Object> records = new LinkedHashMap<>();
            gone.stream().forEach(ordinal -> records.put(Integer.toString(ordinal), record(type, ordinal)));
            if (!records.isEmpty()) {
                result.put(type.getSchema().getName(), records);
            }
        }
        return result;
    }

    private static Map<String, Object> type(HollowTypeReadState type) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("kind", type.getSchema().getSchemaType().name());
        result.put("schema", type.getSchema().toString());
        result.put("numShards", (long) type.numShards());
        result.put("maxOrdinal", (long) type.maxOrdinal());
        List<Object> populated = new ArrayList<>();
        List<Object> records = new ArrayList<>();
        type.getPopulatedOrdinals().stream().forEach(ordinal -> {
            populated.add((long) ordinal);
            records.add(record(type, ordinal));
        });
        result.put("populated", populated);
        if (type.getSchema() instanceof HollowObjectSchema schema) {
            List<Object> fields = new ArrayList<>();
            for (int field = 0; field < schema.numFields(); field++) {
                List<Object> words = new ArrayList<>();
                words.add(schema.getFieldName(field));
                words.add(schema.getFieldType(field).name());
                if (schema.getReferencedType(field) != null) {
                    words.add(schema.getReferencedType(field));
                }
                fields.add(words);
            }
            result.put("fields", fields);
        }
        result.put("records", records);
        return result;
    }

    private static Object record(HollowTypeReadState type, int ordinal) {
        if (type instanceof HollowObjectTypeReadState object) {
            List<Object> values = new ArrayList<>();
            for (int field = 0; field < object.getSchema().numFields(); field++) {
                values.add(value(object, ordinal, field));
            }
            return values;
        }
        if (type instanceof HollowListTypeReadState list) {
            List<Object> elements = new ArrayList<>();
            for (int index = 0; index < list.size(ordinal); index++) {
                elements.add((long) list.getElementOrdinal(ordinal, index));
            }
            return elements;
        }
        List<Object> buckets = new ArrayList<>();
        int size;
        if (type instanceof HollowSetTypeReadState set) {
            size = set.size(ordinal);
            for (int bucket = 0; bucket < HashCodes.hashTableSize(size); bucket++) {
                buckets.add((long) set.relativeBucketValue(ordinal, bucket));
            }
        } else {
            HollowMapTypeReadState map = (HollowMapTypeReadState) type;
            size = map.size(ordinal);
            for (int bucket = 0; bucket < HashCodes.hashTableSize(size); bucket++) {
                long entry = map.relativeBucket(ordinal, bucket);
                buckets.add(entry == -1 ? null : List.of(entry >>> 32, (long) (int) entry));
            }
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("size", (long) size);
        result.put("buckets", buckets);
        return result;
    }

    private static Object value(HollowObjectTypeReadState type, int ordinal, int field) {
        if (type.isNull(ordinal, field)) {
            return null;
        }
        HexFormat hex = HexFormat.of();
        return switch (type.getSchema().getFieldType(field)) {
            case INT -> (long) type.readInt(ordinal, field);
            case LONG -> type.readLong(ordinal, field);
            case BOOLEAN -> type.readBoolean(ordinal, field);
            case FLOAT -> hex.toHexDigits(Float.floatToRawIntBits(type.readFloat(ordinal, field)));
            case DOUBLE -> hex.toHexDigits(Double.doubleToRawLongBits(type.readDouble(ordinal, field)));
            case STRING -> type.readString(ordinal, field);
            case BYTES -> hex.formatHex(type.readBytes(ordinal, field));
            case REFERENCE -> (long) type.readOrdinal(ordinal, field);
        };
    }
}
