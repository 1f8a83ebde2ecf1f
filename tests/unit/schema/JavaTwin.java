// The Java twin of the classes in test_classes.py. java_twin.txt is what this prints with Hollow 7.14.23 on Java 17:
//   javac -cp hollow.jar JavaTwin.java
//   java --add-opens java.base/java.lang=ALL-UNNAMED -cp hollow.jar:. JavaTwin

import com.netflix.hollow.core.schema.HollowSchema;
import com.netflix.hollow.core.schema.HollowSchemaHash;
import com.netflix.hollow.core.write.HollowWriteStateEngine;
import com.netflix.hollow.core.write.objectmapper.*;
import java.util.*;

public class JavaTwin {
    enum Rating { G, PG, R }

    static class Base {
        int baseId;
        String baseName;
    }

    @HollowPrimaryKey(fields = "id")
    static class Actor {
        long id;
        String name;
        @HollowInline String alias;
        int birthYear;
    }

    @HollowPrimaryKey(fields = "baseKey")
    static class KeyedBase {
        int baseKey;
    }

    static class Child extends KeyedBase {
        long own;
    }

    static class Pair {
        int a;
        int b;
    }

    static class Only {
        Pair pair;
    }

    @HollowTypeName(name = "Renamed")
    @HollowShardLargeType(numShards = 8)
    static class Other {
        Short s;
        Byte b;
        Character c;
    }

    @HollowPrimaryKey(fields = {"id", "title"})
    static class Movie extends Base {
        long id;
        int year;
        float rating;
        double score;
        boolean live;
        String title;
        byte[] blob;
        char[] letters;
        Integer boxedInt;
        Long boxedLong;
        Boolean boxedBoolean;
        Float boxedFloat;
        Double boxedDouble;
        @HollowInline Integer inlineInt;
        @HollowInline Long inlineLong;
        @HollowInline Boolean inlineBoolean;
        @HollowInline Float inlineFloat;
        @HollowInline Double inlineDouble;
        Rating certificate;
        Date released;
        List<Actor> cast;
        Set<Actor> crew;
        Map<String, Actor> roles;
        Set<String> tags;
        List<Integer> numbers;
        Map<Integer, List<String>> nested;
        Set<Pair> pairs;
        Map<Pair, Pair> pairMap;
        Set<Only> onlys;
        @HollowHashKey(fields = "a") @HollowTypeName(name = "PairsByA") Set<Pair> byA;
        @HollowHashKey(fields = {}) @HollowTypeName(name = "ActorsByOrdinal") Set<Actor> byOrdinal;
        Set<List<String>> setOfLists;
        Map<Date, Rating> dates;
        @HollowTypeName(name = "Slogan") String slogan;
        Other other;
        Child child;
        Set<Child> children;
        short sh;
        byte by;
        char ch;
        transient int gone;
        @HollowTransient int goneToo;
        static int shared;
        @HollowShardLargeType(numShards = 4) List<Long> longs;
        Set<Rating> ratings;
    }

    public static void main(String[] arguments) {
        HollowWriteStateEngine engine = new HollowWriteStateEngine();
        new HollowObjectMapper(engine).initializeTypeState(Movie.class);
        List<String> texts = new ArrayList<>();
        for (HollowSchema schema : engine.getSchemas())
            texts.add(schema.toString());
        System.out.println(String.join("\n\n", texts));
        System.out.println("// hash " + new HollowSchemaHash(engine).getHash());
        for (HollowSchema schema : engine.getSchemas()) {
            int shards = engine.getTypeState(schema.getName()).getNumShards();
            if (shards != -1)
                System.out.println("// shards " + schema.getName() + " " + shards);
        }
    }
}
