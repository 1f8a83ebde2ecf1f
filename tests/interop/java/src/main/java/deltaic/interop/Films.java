package deltaic.interop;

import com.netflix.hollow.core.write.objectmapper.HollowInline;
import com.netflix.hollow.core.write.objectmapper.HollowPrimaryKey;
import com.netflix.hollow.core.write.objectmapper.HollowTypeName;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The classes that the Java service of the guide publishes; their Python twins are in films.py. */
final class Films {
    private Films() {
    }

    enum Genre { DRAMA, COMEDY, SCIENCE_FICTION }

    @HollowPrimaryKey(fields = "id")
    static class Actor {
        long id;
        String name;
        int birthYear;
    }

    @HollowPrimaryKey(fields = "id")
    static class Movie {
        long id;
        String title;
        int year;
        float rating;
        Genre genre;
        Date released;
        List<Actor> cast;
        Set<String> tags;
        Map<String, Integer> awards;
    }

    /** Movies of a later model: without a rating, with a country and an inline language. */
    @HollowTypeName(name = "Movie")
    @HollowPrimaryKey(fields = "id")
    static class LaterMovie {
        long id;
        String title;
        int year;
        Genre genre;
        Date released;
        List<Actor> cast;
        Set<String> tags;
        Map<String, Integer> awards;
        String country;
        @HollowInline String language;
    }

    /** Movies of a model that only grew, with its fields in another order. */
    @HollowTypeName(name = "Movie")
    @HollowPrimaryKey(fields = "id")
    static class GrownMovie {
        long id;
        String country;
        String title;
        int year;
        float rating;
        Genre genre;
        Date released;
        @HollowInline String language;
        List<Actor> cast;
        Set<String> tags;
        Map<String, Integer> awards;
    }

    static Class<?> named(String name) {
        return switch (name) {
            case "Movie" -> Movie.class;
            case "GrownMovie" -> GrownMovie.class;
            case "LaterMovie" -> LaterMovie.class;
            default -> throw new IllegalArgumentException("no class " + name);
        };
    }
}
