package deltaic.interop;

import com.netflix.hollow.api.consumer.fs.HollowFilesystemBlobRetriever;
import com.netflix.hollow.api.producer.HollowProducer;
import com.netflix.hollow.api.producer.fs.HollowFilesystemAnnouncer;
import com.netflix.hollow.api.producer.fs.HollowFilesystemPublisher;
import com.netflix.hollow.api.producer.validation.ValidationResult;
import com.netflix.hollow.api.producer.validation.ValidatorListener;
import com.netflix.hollow.core.write.objectmapper.RecordPrimaryKey;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A Java service that publishes: ["cycle", ROWS] everything, ["change", ROWS, IDS] with --incremental only what was
 * added, modified and deleted, ["refuse", ROWS] a cycle that a validator refuses, ["announce", VERSION] an older
 * version again. It starts by restoring what is announced, if anything is.
 */
final class Publisher {
    private final Path folder;
    private final Class<?> model;
    private final HollowProducer producer;
    private final HollowProducer.Incremental incremental;
    private final Refusal refusal = new Refusal();

    private Publisher(Path folder, String model, boolean incremental) throws IOException {
        this.folder = folder;
        this.model = Films.named(model);
        this.producer = incremental ? null : Guide.produce(folder, this.model);
        this.incremental = incremental ? incremental() : null;
        if (producer != null) {
            producer.addListener(refusal);
        }
    }

    static Service open(String[] words) throws IOException {
        boolean incremental = words[0].equals("--incremental");
        int first = incremental ? 1 : 0;
        return new Publisher(Path.of(words[first]), words[first + 1], incremental)::answer;
    }

    private HollowProducer.Incremental incremental() throws IOException {
        HollowProducer.Incremental made = HollowProducer
                .withPublisher(new HollowFilesystemPublisher(folder))
                .withAnnouncer(new HollowFilesystemAnnouncer(folder))
                .buildIncremental();
        made.initializeDataModel(model);
        Path announced = folder.resolve("announced.version");
        if (Files.exists(announced)) {
            made.restore(Long.parseLong(Files.readString(announced)), new HollowFilesystemBlobRetriever(folder));
        }
        return made;
    }

    private static final class Refusal implements ValidatorListener {
        private boolean on;

        @Override
        public String getName() {
            return "refusal";
        }

        @Override
        public ValidationResult onValidate(HollowProducer.ReadState state) {
            return on ? ValidationResult.from(this).failed("refused") : ValidationResult.from(this).passed();
        }
    }

    private Map<String, Object> answer(List<Object> words) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            answer.put("version", run(words));
        } catch (RuntimeException error) {
            answer.put("refused", error.toString());
        }
        return answer;
    }

    private long run(List<Object> words) {
        switch ((String) words.get(0)) {
            case "cycle", "refuse" -> {
                refusal.on = words.get(0).equals("refuse");
                return Guide.publish(producer, Rows.all(model, words.get(1)));
            }
            case "change" -> {
                return incremental.runIncrementalCycle(state -> {
                    for (Object movie : Rows.all(model, words.get(1))) {
                        state.addOrModify(movie);
                    }
                    for (Object id : Json.list(words.get(2))) {
                        state.delete(new RecordPrimaryKey("Movie", new Object[] {id}));
                    }
                });
            }
            case "announce" -> {
                long version = (Long) words.get(1);
                new HollowFilesystemAnnouncer(folder).announce(version);
                return version;
            }
            default -> throw new IllegalArgumentException("no command " + words.get(0));
        }
    }
}
