package deltaic.interop;

import com.netflix.hollow.core.index.HollowHashIndex;
import com.netflix.hollow.core.index.HollowHashIndexResult;
import com.netflix.hollow.core.index.HollowPrefixIndex;
import com.netflix.hollow.core.index.HollowPrimaryKeyIndex;
import com.netflix.hollow.core.read.engine.HollowReadStateEngine;
import com.netflix.hollow.core.read.iterator.HollowOrdinalIterator;
import java.io.File;
import java.io.PrintWriter;
import java.util.Random;

/** The index figures on snapshot-0 of the movie catalogue: builds and look-ups. */
final class IndexBench {
    private static final int READS = 1_000_000;
    private static final int HOT = 1_000;
    private static final int WARM_UP = 2;

    private final HollowReadStateEngine engine;
    private final boolean withPrefix;
    private final Timing timing = new Timing();
    private long sink;

    private IndexBench(HollowReadStateEngine engine, boolean withPrefix) {
        this.engine = engine;
        this.withPrefix = withPrefix;
    }

    static void run(String[] words, PrintWriter out) throws Exception {
        int rounds = words.length > 1 ? Integer.parseInt(words[1]) : 3;
        Chain chain = new Chain(false);
        chain.read(new File(words[0], "snapshot-0"));
        IndexBench bench = new IndexBench(chain.engine, words.length > 2 && words[2].equals("prefix"));
        for (int round = 0; round < WARM_UP + rounds; round++) {
            if (round == WARM_UP) {
                bench.timing.startCounting();
            }
            bench.round();
        }
        bench.timing.print(out);
        Timing.printBytes(out, "sink", bench.sink);
    }

    private void round() throws Exception {
        int count = engine.getTypeState("Movie").getPopulatedOrdinals().cardinality();
        int actors = engine.getTypeState("Actor").getPopulatedOrdinals().cardinality();
        long[] cold = new Random(1).longs(READS, 0, count).toArray();
        long[] hot = new Random(2).longs(READS, 0, Math.min(HOT, count)).toArray();
        HollowPrimaryKeyIndex[] key = new HollowPrimaryKeyIndex[1];
        timing.measure("key index build", 1, () -> key[0] = new HollowPrimaryKeyIndex(engine, "Movie", "id"));
        timing.measure("key look-up, hit", READS, () -> look(key[0], cold, 0));
        timing.measure("key look-up, hot", READS, () -> look(key[0], hot, 0));
        timing.measure("key look-up, miss", READS, () -> look(key[0], cold, count * 2L));
        HollowPrimaryKeyIndex[] title = new HollowPrimaryKeyIndex[1];
        timing.measure("key index by title build", 1,
                () -> title[0] = new HollowPrimaryKeyIndex(engine, "Movie", "title.value"));
        HollowHashIndex[] hash = new HollowHashIndex[1];
        timing.measure("hash index by year build", 1, () -> hash[0] = new HollowHashIndex(engine, "Movie", "", "year"));
        timing.measure("hash index by actor build", 1,
                () -> hash[0] = new HollowHashIndex(engine, "Movie", "", "cast.element.id"));
        long[] matches = new long[1];
        long[] wanted = new Random(3).longs(20_000, 0, actors).toArray();
        for (long actor : wanted) {
            HollowHashIndexResult result = hash[0].findMatches(actor);
            matches[0] += result == null ? 0 : result.numResults();
        }
        timing.measure("hash find and iterate, per match", matches[0], () -> {
            long sum = 0;
            for (long actor : wanted) {
                HollowHashIndexResult result = hash[0].findMatches(actor);
                if (result != null) {
                    HollowOrdinalIterator found = result.iterator();
                    for (int at = found.next(); at != HollowOrdinalIterator.NO_MORE_ORDINALS; at = found.next()) {
                        sum += at;
                    }
                }
            }
            sink += sum;
        });
        if (withPrefix) {
            timing.measure("prefix index build", 1,
                    () -> sink += new HollowPrefixIndex(engine, "Movie", "title.value").hashCode());
        }
    }

    private void look(HollowPrimaryKeyIndex index, long[] keys, long offset) {
        long sum = 0;
        for (long key : keys) {
            sum += index.getMatchingOrdinal(key + offset);
        }
        sink += sum;
    }
}
