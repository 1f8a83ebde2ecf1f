package deltaic.interop;

import com.netflix.hollow.api.consumer.HollowConsumer;
import com.netflix.hollow.api.consumer.fs.HollowFilesystemAnnouncementWatcher;
import com.netflix.hollow.api.consumer.fs.HollowFilesystemBlobRetriever;
import com.netflix.hollow.api.producer.HollowProducer;
import com.netflix.hollow.api.producer.fs.HollowFilesystemAnnouncer;
import com.netflix.hollow.api.producer.fs.HollowFilesystemPublisher;
import com.netflix.hollow.core.index.HollowPrimaryKeyIndex;
import com.netflix.hollow.core.read.engine.HollowReadStateEngine;
import com.netflix.hollow.core.read.engine.object.HollowObjectTypeReadState;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** The code of docs/java.md, used by the other commands; a test looks for every block of the page in here. */
final class Guide {
    private Guide() {
    }

    static HollowConsumer follow(Path chain) {
        HollowConsumer consumer = HollowConsumer
                .withBlobRetriever(new HollowFilesystemBlobRetriever(chain))
                .withAnnouncementWatcher(new HollowFilesystemAnnouncementWatcher(chain))
                .build();
        consumer.triggerRefresh();
        return consumer;
    }

    static String title(HollowConsumer consumer, long id) {
        HollowReadStateEngine state = consumer.getStateEngine();
        HollowPrimaryKeyIndex byId = new HollowPrimaryKeyIndex(state, "Movie", "id");
        HollowObjectTypeReadState movies = (HollowObjectTypeReadState) state.getTypeState("Movie");
        HollowObjectTypeReadState texts = (HollowObjectTypeReadState) state.getTypeState("String");
        int movie = byId.getMatchingOrdinal(id);
        if (movie < 0) {
            return null;
        }
        int title = movies.readOrdinal(movie, movies.getSchema().getPosition("title"));
        return texts.readString(title, 0);
    }

    static HollowProducer produce(Path chain, Class<?>... model) throws IOException {
        HollowProducer producer = HollowProducer
                .withPublisher(new HollowFilesystemPublisher(chain))
                .withAnnouncer(new HollowFilesystemAnnouncer(chain))
                .build();
        producer.initializeDataModel(model);
        Path announced = chain.resolve("announced.version");
        if (Files.exists(announced)) {
            long version = Long.parseLong(Files.readString(announced).trim());
            producer.restore(version, new HollowFilesystemBlobRetriever(chain));
        }
        return producer;
    }

    static long publish(HollowProducer producer, List<?> movies) {
        return producer.runCycle(state -> {
            for (Object movie : movies) {
                state.add(movie);
            }
        });
    }
}
