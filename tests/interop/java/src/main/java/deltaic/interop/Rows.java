package deltaic.interop;

import com.netflix.hollow.core.write.objectmapper.HollowTransient;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Date;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Objects of annotated classes from JSON. Numbers with a fraction are the hexadecimal digits of their bits, bytes are
 * hexadecimal too, dates milliseconds, enums their names, maps lists of pairs. Sets and maps keep the order of the JSON:
 * the object mapper numbers elements as it meets them.
 */
final class Rows {
    private Rows() {
    }

    static <T> List<T> all(Class<T> type, Object json) {
        List<T> objects = new ArrayList<>();
        for (Object row : Json.list(json)) {
            objects.add(type.cast(value(type, row)));
        }
        return objects;
    }

    private static Object value(Type type, Object json) {
        if (json == null) {
            return null;
        }
        if (type instanceof ParameterizedType generic) {
            return collection(generic, json);
        }
        Class<?> plain = (Class<?>) type;
        if (json instanceof Long number) {
            return number(plain, number);
        }
        if (plain == float.class || plain == Float.class) {
            return Float.intBitsToFloat((int) HexFormat.fromHexDigitsToLong((String) json));
        }
        if (plain == double.class || plain == Double.class) {
            return Double.longBitsToDouble(HexFormat.fromHexDigitsToLong((String) json));
        }
        if (plain == byte[].class) {
            return HexFormat.of().parseHex((String) json);
        }
        if (plain == char[].class) {
            return ((String) json).toCharArray();
        }
        if (plain.isEnum()) {
            return constant(plain, (String) json);
        }
        return json instanceof Map<?, ?> ? object(plain, Json.map(json)) : json;
    }

    private static Object number(Class<?> type, Long number) {
        if (type == int.class || type == Integer.class) {
            return number.intValue();
        }
        if (type == short.class || type == Short.class) {
            return number.shortValue();
        }
        if (type == byte.class || type == Byte.class) {
            return number.byteValue();
        }
        if (type == char.class || type == Character.class) {
            return (char) number.intValue();
        }
        return type == Date.class ? new Date(number) : number;
    }

    private static Object constant(Class<?> type, String name) {
        for (Object constant : type.getEnumConstants()) {
            if (((Enum<?>) constant).name().equals(name)) {
                return constant;
            }
        }
        throw new IllegalArgumentException(type + " has no " + name);
    }

    private static Object collection(ParameterizedType type, Object json) {
        Type[] of = type.getActualTypeArguments();
        if (type.getRawType() == Map.class) {
            Map<Object, Object> entries = new LinkedHashMap<>();
            for (Object entry : Json.list(json)) {
                List<Object> pair = Json.list(entry);
                entries.put(value(of[0], pair.get(0)), value(of[1], pair.get(1)));
            }
            return entries;
        }
        List<Object> elements = new ArrayList<>();
        for (Object element : Json.list(json)) {
            elements.add(value(of[0], element));
        }
        return type.getRawType() == Set.class ? new LinkedHashSet<>(elements) : elements;
    }

    private static Object object(Class<?> type, Map<String, Object> row) {
        try {
            Constructor<?> constructor = type.getDeclaredConstructor();
            constructor.setAccessible(true);
            Object made = constructor.newInstance();
            int known = 0;
            for (Class<?> each = type; each != Object.class; each = each.getSuperclass()) {
                for (Field field : each.getDeclaredFields()) {
                    boolean written = !Modifier.isStatic(field.getModifiers())
                            && !Modifier.isTransient(field.getModifiers())
                            && field.getAnnotation(HollowTransient.class) == null;
                    if (written && row.containsKey(field.getName())) {
                        known++;
                        Object value = value(field.getGenericType(), row.get(field.getName()));
                        if (value != null) {
                            field.setAccessible(true);
                            field.set(made, value);
                        }
                    }
                }
            }
            if (known != row.size()) {
                throw new IllegalArgumentException(type + " lacks fields of " + row.keySet());
            }
            return made;
        } catch (ReflectiveOperationException error) {
            throw new IllegalArgumentException("cannot make a " + type, error);
        }
    }
}
