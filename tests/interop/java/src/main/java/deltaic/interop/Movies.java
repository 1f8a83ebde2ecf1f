package deltaic.interop;

import com.netflix.hollow.core.write.objectmapper.HollowPrimaryKey;
import com.netflix.hollow.core.write.objectmapper.HollowTypeName;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The movie catalogue: every value follows from its id, the generation of the movie and a salt. */
final class Movies {
    static final int ACTORS = 100_000;
    private static final String[] WORDS = ("amber river night glass storm paper silver garden echo winter iron lantern "
            + "harbor velvet crow meadow signal orbit thunder salt mirror copper desert island").split(" ");
    private static final byte GONE = -1;

    private final int size;
    private final Actor[] actors = new Actor[ACTORS];
    private Movie[] movies;
    private byte[] generations;
    private int version;

    /** What the step to a version did, as ids in rising order. */
    record Step(int[] changed, int[] removed, int[] added) {
    }

    @HollowTypeName(name = "Actor")
    @HollowPrimaryKey(fields = "id")
    static final class Actor {
        final long id;
        final String name;
        final int birthYear;

        Actor(int id) {
            this.id = id;
            this.name = words(id, 5, 6);
            this.birthYear = 1930 + (int) (draw(id, 7, 0) % 75);
        }
    }

    @HollowTypeName(name = "Movie")
    @HollowPrimaryKey(fields = "id")
    static final class Movie {
        final long id;
        final int year;
        final float rating;
        final String title;
        final List<Actor> cast;

        Movie(int id, int generation, Actor[] actors) {
            this.id = id;
            this.year = 1920 + (int) (draw(id, 1, 0) % 106);
            this.rating = (float) ((draw(id, 2, generation) % 1001) / 100.0);
            this.title = words(id, 3, 4);
            int count = 1 + (int) (draw(id, 8, generation) % 5);
            this.cast = new ArrayList<>(count);
            for (int place = 0; place < count; place++) {
                this.cast.add(actors[(int) (draw(id, 16 + place, generation) % ACTORS)]);
            }
        }
    }

    Movies(int size) {
        this.size = size;
        for (int id = 0; id < ACTORS; id++) {
            actors[id] = new Actor(id);
        }
        movies = new Movie[size];
        generations = new byte[size];
        for (int id = 0; id < size; id++) {
            movies[id] = new Movie(id, 0, actors);
        }
    }

    private static long mix(long value) {
        long mixed = value + 0x9E3779B97F4A7C15L;
        mixed = (mixed ^ (mixed >>> 30)) * 0xBF58476D1CE4E5B9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94D049BB133111EBL;
        return mixed ^ (mixed >>> 31);
    }

    private static long draw(long id, int salt, int generation) {
        return mix((id << 16) ^ ((long) generation << 8) ^ salt) >>> 1;
    }

    private static String words(int id, int first, int second) {
        return WORDS[(int) (draw(id, first, 0) % 24)] + " " + WORDS[(int) (draw(id, second, 0) % 24)] + " " + id;
    }

    static long tag(int version) {
        return mix(0xBEEFL + version);
    }

    /** All movies by id; null where one was removed. */
    Movie[] movies() {
        return movies;
    }

    int version() {
        return version;
    }

    /** Moves to the next version. */
    Step advance() {
        version++;
        int before = movies.length;
        int[] changed = new int[before];
        int[] removed = new int[before];
        int changes = 0;
        int removals = 0;
        for (int id = 0; id < before; id++) {
            if (generations[id] == GONE) {
                continue;
            }
            long die = draw(id, 9, version) % 1000;
            if (die < 10) {
                generations[id] = (byte) version;
                movies[id] = new Movie(id, version, actors);
                changed[changes++] = id;
            } else if (die == 10) {
                generations[id] = GONE;
                movies[id] = null;
                removed[removals++] = id;
            }
        }
        int additions = size / 1000;
        movies = Arrays.copyOf(movies, before + additions);
        generations = Arrays.copyOf(generations, before + additions);
        int[] added = new int[additions];
        for (int number = 0; number < additions; number++) {
            int id = before + number;
            generations[id] = (byte) version;
            movies[id] = new Movie(id, version, actors);
            added[number] = id;
        }
        return new Step(Arrays.copyOf(changed, changes), Arrays.copyOf(removed, removals), added);
    }
}
