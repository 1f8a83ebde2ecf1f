package deltaic.interop;

import com.netflix.hollow.core.write.objectmapper.HollowHashKey;
import com.netflix.hollow.core.write.objectmapper.HollowInline;
import com.netflix.hollow.core.write.objectmapper.HollowPrimaryKey;
import com.netflix.hollow.core.write.objectmapper.HollowShardLargeType;
import com.netflix.hollow.core.write.objectmapper.HollowTransient;
import com.netflix.hollow.core.write.objectmapper.HollowTypeName;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** A class model with everything that the object mapper knows; its Python twin is in twin.py. */
final class Twin {
    private Twin() {
    }

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
}
