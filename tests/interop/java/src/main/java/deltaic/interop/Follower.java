package deltaic.interop;

import com.netflix.hollow.api.consumer.HollowConsumer;
import com.netflix.hollow.api.consumer.fs.HollowFilesystemBlobRetriever;
import com.netflix.hollow.core.read.engine.HollowReadStateEngine;
import com.netflix.hollow.core.read.engine.HollowTypeReadState;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * A Java service that follows a chain: ["refresh"] goes to what announced.version says, ["refresh", VERSION] there,
 * ["wait", VERSION, MILLISECONDS] waits for the watcher to lead it there, ["title", ID] looks a movie up, ["state"]
 * gives all records. Answers tell version, checksum, counts, and all that the service noticed since the last one.
 */
final class Follower {
    private final Path folder;
    private final HollowConsumer consumer;
    private final List<Object> events = new ArrayList<>();

    private Follower(Path folder, boolean watching) {
        this.folder = folder;
        this.consumer = watching
                ? Guide.follow(folder)
                : HollowConsumer.withBlobRetriever(new HollowFilesystemBlobRetriever(folder)).build();
        consumer.addRefreshListener(new Noticed());
    }

    static Service open(String[] words) {
        boolean watching = words[0].equals("--watch");
        return new Follower(Path.of(words[watching ? 1 : 0]), watching)::answer;
    }

    private final class Noticed extends HollowConsumer.AbstractRefreshListener {
        @Override
        public void blobLoaded(HollowConsumer.Blob blob) {
            note(blob.isSnapshot() ? "snapshot" : blob.isReverseDelta() ? "reversedelta" : "delta", blob.getToVersion());
        }

        @Override
        public void refreshFailed(long before, long after, long wanted, Throwable cause) {
            note("failed", cause.toString());
        }
    }

    private void note(String what, Object of) {
        synchronized (events) {
            events.add(List.of(what, of));
        }
    }

    private Map<String, Object> answer(List<Object> words) throws Exception {
        switch ((String) words.get(0)) {
            case "refresh" -> refresh(words.size() > 1 ? (Long) words.get(1) : announced());
            case "wait" -> await((Long) words.get(1), (Long) words.get(2));
            case "status", "state", "title" -> {
            }
            default -> throw new IllegalArgumentException("no command " + words.get(0));
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        consumer.getRefreshLock().lock();
        try {
            HollowReadStateEngine engine = consumer.getStateEngine();
            answer.put("version", consumer.getCurrentVersionId());
            answer.put("failedTransitions",
                    (long) consumer.getNumFailedDeltaTransitions() + consumer.getNumFailedSnapshotTransitions());
            answer.putAll(StateJson.header(engine));
            answer.put("counts", counts(engine));
            if (words.get(0).equals("state")) {
                answer.put("state", StateJson.state(engine));
            }
            if (words.get(0).equals("title")) {
                answer.put("title", Guide.title(consumer, (Long) words.get(1)));
            }
        } finally {
            consumer.getRefreshLock().unlock();
        }
        synchronized (events) {
            answer.put("events", List.copyOf(events));
            events.clear();
        }
        return answer;
    }

    private void refresh(long version) {
        try {
            consumer.triggerRefreshTo(version);
        } catch (RuntimeException error) {
            note("raised", error.toString());
        }
    }

    private void await(long version, long milliseconds) throws InterruptedException {
        long deadline = System.nanoTime() + milliseconds * 1_000_000;
        while (consumer.getCurrentVersionId() != version && System.nanoTime() < deadline) {
            Thread.sleep(10);
        }
    }

    private long announced() throws Exception {
        return Long.parseLong(Files.readString(folder.resolve("announced.version")));
    }

    private static Map<String, Object> counts(HollowReadStateEngine engine) {
        Map<String, Object> counts = new TreeMap<>();
        for (HollowTypeReadState type : engine.getTypeStates()) {
            counts.put(type.getSchema().getName(), (long) type.getPopulatedOrdinals().cardinality());
        }
        return counts;
    }
}
