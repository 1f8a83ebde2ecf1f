package deltaic.interop;

import com.netflix.hollow.core.read.HollowBlobInput;
import com.netflix.hollow.core.read.engine.HollowBlobReader;
import com.netflix.hollow.core.read.engine.HollowReadStateEngine;
import com.netflix.hollow.core.read.engine.HollowTypeReadState;
import com.netflix.hollow.core.read.engine.list.HollowListTypeReadState;
import com.netflix.hollow.core.read.engine.object.HollowObjectTypeReadState;
import com.netflix.hollow.core.write.HollowBlobWriter;
import com.netflix.hollow.core.write.HollowTypeWriteState;
import com.netflix.hollow.core.write.HollowWriteStateEngine;
import com.netflix.hollow.core.write.objectmapper.HollowObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.PrintWriter;
import java.util.Arrays;
import java.util.BitSet;

/**
 * The write figures of the movie catalogue. A round writes version 0 on a fresh engine and takes the step to version 1
 * twice: by adding everything again, and by keeping the previous cycle and replacing what changed.
 */
final class WriteBench {
    private static final int WARM_UP = 1;

    private final int size;
    private final Timing timing = new Timing();
    private final ByteArrayOutputStream snapshot = new ByteArrayOutputStream();
    private final ByteArrayOutputStream delta = new ByteArrayOutputStream();
    private final ByteArrayOutputStream reverse = new ByteArrayOutputStream();

    private WriteBench(int size) {
        this.size = size;
    }

    static void run(String[] words, PrintWriter out) throws Exception {
        int rounds = words.length > 1 ? Integer.parseInt(words[1]) : 3;
        WriteBench bench = new WriteBench(Integer.parseInt(words[0]));
        for (int round = 0; round < WARM_UP + rounds; round++) {
            if (round == WARM_UP) {
                bench.timing.startCounting();
            }
            bench.round();
        }
        bench.timing.print(out);
        Timing.printBytes(out, "snapshot", bench.snapshot.size());
        Timing.printBytes(out, "delta", bench.delta.size());
        Timing.printBytes(out, "reverse delta", bench.reverse.size());
    }

    private void round() throws Exception {
        byte[] full = fullCycle();
        byte[] incremental = incrementalCycle();
        if (!Arrays.equals(full, incremental)) {
            throw new IllegalStateException("the two ways to version 1 gave different deltas");
        }
    }

    private byte[] fullCycle() throws Exception {
        Movies catalogue = new Movies(size);
        HollowWriteStateEngine engine = new HollowWriteStateEngine();
        HollowObjectMapper mapper = new HollowObjectMapper(engine);
        HollowBlobWriter writer = new HollowBlobWriter(engine);
        engine.overrideNextStateRandomizedTag(Movies.tag(0));
        timing.measure("populate", size, () -> MovieChain.populate(mapper, catalogue));
        timing.measure("prepare and write snapshot", 1, () -> {
            timing.measure("prepare", 1, engine::prepareForWrite);
            snapshot.reset();
            timing.measure("write snapshot", 1, () -> writer.writeSnapshot(snapshot));
        });
        catalogue.advance();
        timing.measure("full delta cycle", 1, () -> {
            timing.measure("next cycle", 1, engine::prepareForNextCycle);
            engine.overrideNextStateRandomizedTag(Movies.tag(1));
            timing.measure("populate again", 1, () -> MovieChain.populate(mapper, catalogue));
            timing.measure("prepare delta", 1, engine::prepareForWrite);
            delta.reset();
            timing.measure("write delta", 1, () -> writer.writeDelta(delta));
        });
        reverse.reset();
        timing.measure("write reverse delta", 1, () -> writer.writeReverseDelta(reverse));
        return delta.toByteArray();
    }

    private byte[] incrementalCycle() throws Exception {
        Movies catalogue = new Movies(size);
        HollowWriteStateEngine engine = new HollowWriteStateEngine();
        HollowObjectMapper mapper = new HollowObjectMapper(engine);
        HollowBlobWriter writer = new HollowBlobWriter(engine);
        MovieChain.populate(mapper, catalogue);
        engine.overrideNextStateRandomizedTag(Movies.tag(0));
        ByteArrayOutputStream first = new ByteArrayOutputStream(snapshot.size());
        writer.writeSnapshot(first);
        Movies.Step step = catalogue.advance();
        Leaving leaving = leaving(first.toByteArray(), step);
        ByteArrayOutputStream blob = new ByteArrayOutputStream();
        timing.measure("incremental cycle", 1, () -> {
            engine.prepareForNextCycle();
            engine.overrideNextStateRandomizedTag(Movies.tag(1));
            engine.addAllObjectsFromPreviousCycle();
            remove(engine, "Movie", leaving.movies);
            remove(engine, "ListOfActor", leaving.lists);
            remove(engine, "Actor", leaving.actors);
            remove(engine, "String", leaving.strings);
            for (int id : step.changed()) {
                mapper.add(catalogue.movies()[id]);
            }
            for (int id : step.added()) {
                mapper.add(catalogue.movies()[id]);
            }
            writer.writeDelta(blob);
        });
        return blob.toByteArray();
    }

    private static void remove(HollowWriteStateEngine engine, String type, int[] ordinals) {
        HollowTypeWriteState state = engine.getTypeState(type);
        for (int ordinal : ordinals) {
            state.removeOrdinalFromThisCycle(ordinal);
        }
    }

    /** Ordinals that only leaving movies lead to. What a changed movie uses again is added again by the mapper. */
    private record Leaving(int[] movies, int[] lists, int[] actors, int[] strings) {
    }

    private static Leaving leaving(byte[] blob, Movies.Step step) throws Exception {
        HollowReadStateEngine state = new HollowReadStateEngine(true);
        new HollowBlobReader(state).readSnapshot(HollowBlobInput.serial(blob));
        HollowObjectTypeReadState movies = (HollowObjectTypeReadState) state.getTypeState("Movie");
        HollowListTypeReadState lists = (HollowListTypeReadState) state.getTypeState("ListOfActor");
        HollowObjectTypeReadState actors = (HollowObjectTypeReadState) state.getTypeState("Actor");
        int title = movies.getSchema().getPosition("title");
        int cast = movies.getSchema().getPosition("cast");
        int name = actors.getSchema().getPosition("name");
        // Version 0 is added in rising id and has no equal movies: a movie's ordinal is its id.
        BitSet leaving = new BitSet();
        Arrays.stream(step.changed()).forEach(leaving::set);
        Arrays.stream(step.removed()).forEach(leaving::set);
        BitSet staying = (BitSet) movies.getPopulatedOrdinals().clone();
        staying.andNot(leaving);
        BitSet usedLists = new BitSet();
        BitSet usedActors = new BitSet();
        BitSet usedStrings = new BitSet();
        staying.stream().forEach(movie -> {
            usedStrings.set(movies.readOrdinal(movie, title));
            usedLists.set(movies.readOrdinal(movie, cast));
        });
        usedLists.stream().forEach(list -> {
            for (int index = 0; index < lists.size(list); index++) {
                usedActors.set(lists.getElementOrdinal(list, index));
            }
        });
        usedActors.stream().forEach(actor -> usedStrings.set(actors.readOrdinal(actor, name)));
        return new Leaving(leaving.stream().toArray(), without(lists, usedLists), without(actors, usedActors),
                without(state.getTypeState("String"), usedStrings));
    }

    private static int[] without(HollowTypeReadState type, BitSet used) {
        BitSet unused = (BitSet) type.getPopulatedOrdinals().clone();
        unused.andNot(used);
        return unused.stream().toArray();
    }
}
