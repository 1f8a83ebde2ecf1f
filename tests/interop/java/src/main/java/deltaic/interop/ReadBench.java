package deltaic.interop;

import com.netflix.hollow.core.read.engine.HollowReadStateEngine;
import com.netflix.hollow.core.read.engine.list.HollowListTypeReadState;
import com.netflix.hollow.core.read.engine.object.HollowObjectTypeReadState;
import com.netflix.hollow.tools.checksum.HollowChecksum;
import java.io.File;
import java.io.PrintWriter;
import java.util.BitSet;
import java.util.Random;

/** The read figures on a chain of the movie catalogue: snapshot-0 and the deltas from 0 to the last one found. */
final class ReadBench {
    private static final int READS = 1_000_000;
    private static final int HOT = 1_000;
    private static final int WARM_UP = 3;

    private final File folder;
    private final int last;
    private final Timing timing = new Timing();
    private long sink;

    private ReadBench(File folder) {
        this.folder = folder;
        int version = 0;
        while (new File(folder, "delta-" + version + "-" + (version + 1)).exists()) {
            version++;
        }
        this.last = version;
    }

    static void run(String[] words, PrintWriter out) throws Exception {
        int rounds = words.length > 1 ? Integer.parseInt(words[1]) : 5;
        ReadBench bench = new ReadBench(new File(words[0]));
        bench.heap(out);
        for (int round = 0; round < WARM_UP + rounds; round++) {
            if (round == WARM_UP) {
                bench.timing.startCounting();
            }
            bench.round();
        }
        bench.timing.print(out);
        Timing.printBytes(out, "sink", bench.sink);
    }

    private void heap(PrintWriter out) throws Exception {
        long before = Timing.usedHeap();
        Chain chain = new Chain(false);
        chain.read(new File(folder, "snapshot-0"));
        Timing.printBytes(out, "heap after load", Timing.usedHeap() - before);
        for (int version = 0; version < last; version++) {
            chain.read(new File(folder, "delta-" + version + "-" + (version + 1)));
        }
        Timing.printBytes(out, "heap after deltas", Timing.usedHeap() - before);
        Timing.printBytes(out, "own estimate after deltas", chain.engine.calcApproxDataSize());
    }

    private void round() throws Exception {
        Chain chain = new Chain(false);
        timing.measure("load", 1, () -> chain.read(new File(folder, "snapshot-0")));
        reads(chain.engine);
        timing.measure("checksum", 1, () -> sink += HollowChecksum.forStateEngine(chain.engine).intValue());
        timing.measure("apply delta", last, () -> {
            for (int version = 0; version < last; version++) {
                chain.read(new File(folder, "delta-" + version + "-" + (version + 1)));
            }
        });
        timing.measure("apply reverse delta", last, () -> {
            for (int version = last; version > 0; version--) {
                chain.read(new File(folder, "reversedelta-" + version + "-" + (version - 1)));
            }
        });
    }

    private void reads(HollowReadStateEngine engine) throws Exception {
        HollowObjectTypeReadState movies = (HollowObjectTypeReadState) engine.getTypeState("Movie");
        HollowObjectTypeReadState strings = (HollowObjectTypeReadState) engine.getTypeState("String");
        HollowListTypeReadState lists = (HollowListTypeReadState) engine.getTypeState("ListOfActor");
        int year = movies.getSchema().getPosition("year");
        int rating = movies.getSchema().getPosition("rating");
        int title = movies.getSchema().getPosition("title");
        int cast = movies.getSchema().getPosition("cast");
        BitSet present = movies.getPopulatedOrdinals();
        BitSet texts = strings.getPopulatedOrdinals();
        int count = present.cardinality();
        int[] cold = new Random(1).ints(READS, 0, count).toArray();
        int[] hot = new Random(2).ints(READS, 0, Math.min(HOT, count)).toArray();

        // A small column is scanned several times, so that a round is long enough for the clock.
        int repeats = Math.max(1, READS / count);
        timing.measure("int column scan", (long) count * repeats, () -> {
            for (int repeat = 0; repeat < repeats; repeat++) {
                sink += scanInts(movies, year, present);
            }
        });
        timing.measure("float column scan", (long) count * repeats, () -> {
            for (int repeat = 0; repeat < repeats; repeat++) {
                sink += scanFloats(movies, rating, present);
            }
        });
        timing.measure("String type decode", (long) texts.cardinality() * repeats, () -> {
            for (int repeat = 0; repeat < repeats; repeat++) {
                sink += scanTexts(strings, texts);
            }
        });
        timing.measure("int random", READS, () -> sink += years(movies, year, cold));
        timing.measure("int hot", READS, () -> sink += years(movies, year, hot));
        timing.measure("string through reference, cold", READS, () -> sink += titles(movies, strings, title, cold));
        timing.measure("string through reference, hot", READS, () -> sink += titles(movies, strings, title, hot));
        timing.measure("list size and first element", READS, () -> {
            long sum = 0;
            for (int ordinal : cold) {
                int list = movies.readOrdinal(ordinal, cast);
                sum += lists.size(list) + lists.getElementOrdinal(list, 0);
            }
            sink += sum;
        });
    }

    private static long scanInts(HollowObjectTypeReadState type, int field, BitSet ordinals) {
        long sum = 0;
        for (int ordinal = ordinals.nextSetBit(0); ordinal >= 0; ordinal = ordinals.nextSetBit(ordinal + 1)) {
            sum += type.readInt(ordinal, field);
        }
        return sum;
    }

    private static long scanFloats(HollowObjectTypeReadState type, int field, BitSet ordinals) {
        float sum = 0;
        for (int ordinal = ordinals.nextSetBit(0); ordinal >= 0; ordinal = ordinals.nextSetBit(ordinal + 1)) {
            sum += type.readFloat(ordinal, field);
        }
        return (long) sum;
    }

    private static long scanTexts(HollowObjectTypeReadState type, BitSet ordinals) {
        long sum = 0;
        for (int ordinal = ordinals.nextSetBit(0); ordinal >= 0; ordinal = ordinals.nextSetBit(ordinal + 1)) {
            sum += type.readString(ordinal, 0).length();
        }
        return sum;
    }

    private static long years(HollowObjectTypeReadState movies, int year, int[] ordinals) {
        long sum = 0;
        for (int ordinal : ordinals) {
            sum += movies.readInt(ordinal, year);
        }
        return sum;
    }

    private static long titles(
            HollowObjectTypeReadState movies, HollowObjectTypeReadState strings, int title, int[] ordinals) {
        long sum = 0;
        for (int ordinal : ordinals) {
            sum += strings.readString(movies.readOrdinal(ordinal, title), 0).length();
        }
        return sum;
    }
}
