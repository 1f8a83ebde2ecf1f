package deltaic.interop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON of maps, lists, strings, whole numbers (long), true, false and null. Text is read and printed by UTF-16 unit,
 * so that unpaired surrogates survive; everything beyond ASCII is printed as an escape.
 */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value();
        json.space();
        if (json.at != text.length()) {
            throw json.wrong("end of text");
        }
        return value;
    }

    static String print(Object value) {
        StringBuilder out = new StringBuilder();
        print(value, out);
        return out.toString();
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> map(Object value) {
        return (Map<String, Object>) value;
    }

    @SuppressWarnings("unchecked")
    static List<Object> list(Object value) {
        return (List<Object>) value;
    }

    private IllegalArgumentException wrong(String wanted) {
        return new IllegalArgumentException("JSON: " + wanted + " expected at " + at);
    }

    private void space() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
            at++;
        }
    }

    private boolean take(char wanted) {
        space();
        if (at < text.length() && text.charAt(at) == wanted) {
            at++;
            return true;
        }
        return false;
    }

    private void need(char wanted) {
        if (!take(wanted)) {
            throw wrong("'" + wanted + "'");
        }
    }

    private Object value() {
        space();
        if (at >= text.length()) {
            throw wrong("a value");
        }
        return switch (text.charAt(at)) {
            case '{' -> object();
            case '[' -> array();
            case '"' -> string();
            case 't' -> word("true", Boolean.TRUE);
            case 'f' -> word("false", Boolean.FALSE);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw wrong(word);
        }
        at += word.length();
        return value;
    }

    private Long number() {
        int start = at;
        if (text.charAt(at) == '-') {
            at++;
        }
        while (at < text.length() && Character.isDigit(text.charAt(at))) {
            at++;
        }
        return Long.valueOf(text.substring(start, at));
    }

    private Map<String, Object> object() {
        Map<String, Object> result = new LinkedHashMap<>();
        need('{');
        if (take('}')) {
            return result;
        }
        do {
            space();
            String key = string();
            need(':');
            result.put(key, value());
        } while (take(','));
        need('}');
        return result;
    }

    private List<Object> array() {
        List<Object> result = new ArrayList<>();
        need('[');
        if (take(']')) {
            return result;
        }
        do {
            result.add(value());
        } while (take(','));
        need(']');
        return result;
    }

    private String string() {
        need('"');
        StringBuilder result = new StringBuilder();
        while (true) {
            char unit = text.charAt(at++);
            if (unit == '"') {
                return result.toString();
            }
            if (unit != '\\') {
                result.append(unit);
                continue;
            }
            char escaped = text.charAt(at++);
            switch (escaped) {
                case 'b' -> result.append('\b');
                case 'f' -> result.append('\f');
                case 'n' -> result.append('\n');
                case 'r' -> result.append('\r');
                case 't' -> result.append('\t');
                case 'u' -> {
                    result.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                    at += 4;
                }
                default -> result.append(escaped);
            }
        }
    }

    private static void print(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> entries) {
            char before = '{';
            for (Map.Entry<?, ?> entry : entries.entrySet()) {
                out.append(before);
                quote((String) entry.getKey(), out);
                out.append(':');
                print(entry.getValue(), out);
                before = ',';
            }
            out.append(before == '{' ? "{}" : "}");
        } else if (value instanceof Iterable<?> items) {
            char before = '[';
            for (Object item : items) {
                out.append(before);
                print(item, out);
                before = ',';
            }
            out.append(before == '[' ? "[]" : "]");
        } else if (value instanceof String string) {
            quote(string, out);
        } else {
            out.append(value);
        }
    }

    private static void quote(String string, StringBuilder out) {
        out.append('"');
        for (int i = 0; i < string.length(); i++) {
            char unit = string.charAt(i);
            if (unit == '"' || unit == '\\') {
                out.append('\\').append(unit);
            } else if (unit >= 0x20 && unit < 0x7f) {
                out.append(unit);
            } else {
                out.append(String.format("\\u%04x", (int) unit));
            }
        }
        out.append('"');
    }
}
