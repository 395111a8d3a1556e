import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The loads of the comparison on Kafka, with its own Java client; arguments and lines as in load_client.py. */
public final class Load {
    private static final long WAIT_S = 60;
    private static final double GAP_LOOK_S = 0.25;
    private static final int WARM_UP_S = 3;
    private static final short REPLICATION = 3;

    private final Map<String, String> arguments = new HashMap<>();
    private final LongAdder counted = new LongAdder();
    private final CountDownLatch ended = new CountDownLatch(1);
    private final AtomicReference<Exception> failure = new AtomicReference<>();

    public static void main(String[] given) throws Exception {
        Load load = new Load();
        for (int at = 1; at + 1 < given.length; at += 2) {
            load.arguments.put(given[at].substring(2), given[at + 1]);
        }
        switch (given[0]) {
            case "produce" -> load.produce();
            case "read" -> load.read();
            case "steady" -> load.steady();
            case "single" -> load.single();
            case "gap" -> load.gap();
            case "make" -> load.make();
            case "leader" -> load.leader();
            default -> throw new IllegalArgumentException("no load " + given[0]);
        }
        if (load.failure.get() != null) {
            throw load.failure.get();
        }
    }

    private String text(String name) {
        String value = arguments.get(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }

    private int number(String name) {
        return Integer.parseInt(text(name));
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private List<byte[]> values() throws IOException {
        byte[] content = Files.readAllBytes(Path.of(text("values")));
        int size = number("bytes");
        List<byte[]> found = new ArrayList<>();
        for (int at = 0; at < content.length; at += size) {
            found.add(Arrays.copyOfRange(content, at, at + size));
        }
        return found;
    }

    private Properties common() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", text("bootstrap"));
        return properties;
    }

    private KafkaProducer<byte[], byte[]> producer(String codec, int lingerMs, int batchBytes) {
        Properties properties = common();
        properties.put("acks", "all");
        properties.put("compression.type", codec);
        properties.put("linger.ms", lingerMs);
        properties.put("batch.size", batchBytes);
        properties.put("buffer.memory", 64L << 20);
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private boolean running() {
        return ended.getCount() > 0 && failure.get() == null;
    }

    /** A line for each window, until standard input ends. */
    private void watch(double windowS) {
        daemon(() -> {
            while (System.in.read() >= 0) {
                // what comes means nothing, the end does
            }
            ended.countDown();
        });
        daemon(() -> {
            long at = System.nanoTime();
            long before = counted.sum();
            while (!ended.await((long) (windowS * 1e6), TimeUnit.MICROSECONDS)) {
                long now = System.nanoTime();
                long total = counted.sum();
                say("{\"messages\":" + (total - before) + ",\"seconds\":" + (now - at) / 1e9 + "}");
                at = now;
                before = total;
            }
        });
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void daemon(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception error) {
                error.printStackTrace();
                System.exit(1);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private Callback counting() {
        return (metadata, error) -> {
            if (error == null) {
                counted.increment();
            } else {
                failure.compareAndSet(null, error);
            }
        };
    }

    private void writeEach(KafkaProducer<byte[], byte[]> producer, byte[] value) throws Exception {
        for (int partition = 0; partition < number("partitions"); partition++) {
            producer.send(new ProducerRecord<>(text("topic"), partition, null, value)).get(WAIT_S, TimeUnit.SECONDS);
        }
    }

    private void produce() throws Exception {
        List<byte[]> values = values();
        String topic = text("topic");
        try (KafkaProducer<byte[], byte[]> producer = producer(text("codec"), 5, 1_000_000)) {
            writeEach(producer, values.get(0));
            watch(Double.parseDouble(text("window-s")));
            Callback counting = counting();
            for (int at = 0; running(); at = (at + 1) % values.size()) {
                producer.send(new ProducerRecord<>(topic, values.get(at)), counting);
            }
            producer.flush();
        }
        say("{\"done\":" + (counted.sum() + number("partitions")) + "}");
    }

    private void read() throws Exception {
        List<TopicPartition> partitions = new ArrayList<>();
        for (int partition = 0; partition < number("partitions"); partition++) {
            partitions.add(new TopicPartition(text("topic"), partition));
        }
        long messages = Long.parseLong(text("messages"));
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(common(), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            watch(Double.parseDouble(text("window-s")));
            while (running()) {
                consumer.seekToBeginning(partitions);
                for (long left = messages; left > 0 && running();) {
                    int count = consumer.poll(Duration.ofSeconds(WAIT_S)).count();
                    if (count == 0) {
                        throw new IllegalStateException("nothing to read, " + left + " messages before the end");
                    }
                    left -= count;
                    counted.add(count);
                }
            }
        }
        say("{\"done\":" + counted.sum() + "}");
    }

    private void steady() throws Exception {
        List<byte[]> values = values();
        String topic = text("topic");
        int partitions = number("partitions");
        int perS = number("per-s");
        int warmUp = perS * WARM_UP_S;
        int total = warmUp + perS * number("seconds");
        long[] sentAt = new long[total];
        double[] acknowledgedMs = new double[total];
        double[] lateMs = new double[total];
        try (KafkaProducer<byte[], byte[]> producer = producer("none", 0, 16_384)) {
            writeEach(producer, values.get(0));
            long began = System.nanoTime();
            for (int at = 0; at < total; at++) {
                long due = began + at * 1_000_000_000L / perS;
                for (long ahead = due - System.nanoTime(); ahead > 0; ahead = due - System.nanoTime()) {
                    LockSupport.parkNanos(ahead);
                }
                if (at == warmUp) {
                    say("{\"measuring\":true}");
                }
                int message = at;
                sentAt[at] = System.nanoTime();
                lateMs[at] = (sentAt[at] - due) / 1e6;
                byte[] value = values.get(at % values.size());
                producer.send(new ProducerRecord<>(topic, at % partitions, null, value), (metadata, error) -> {
                    if (error == null) {
                        acknowledgedMs[message] = (System.nanoTime() - sentAt[message]) / 1e6;
                    } else {
                        failure.compareAndSet(null, error);
                    }
                });
            }
            producer.flush();
            say("{\"measured\":true}");
        }
        if (failure.get() == null) {
            double[] acknowledged = Arrays.copyOfRange(acknowledgedMs, warmUp, total);
            double[] late = Arrays.copyOfRange(lateMs, warmUp, total);
            say("{\"acknowledged_ms\":" + Arrays.toString(acknowledged) + ",\"late_ms\":" + Arrays.toString(late) + "}");
        }
    }

    private void single() throws Exception {
        byte[] value = values().get(0);
        String topic = text("topic");
        BlockingQueue<Integer> free = new ArrayBlockingQueue<>(number("partitions"));
        try (KafkaProducer<byte[], byte[]> producer = producer("none", 0, 0)) {
            writeEach(producer, value);
            for (int partition = 0; partition < number("partitions"); partition++) {
                free.add(partition);
            }
            watch(Double.parseDouble(text("window-s")));
            while (running()) {
                Integer partition = free.poll(WAIT_S, TimeUnit.SECONDS);
                if (partition == null) {
                    throw new IllegalStateException("nothing was acknowledged for " + WAIT_S + " s");
                }
                producer.send(new ProducerRecord<>(topic, partition, null, value), (metadata, error) -> {
                    if (error == null) {
                        counted.increment();
                        free.add(partition);
                    } else {
                        failure.compareAndSet(null, error);
                    }
                });
            }
            producer.flush();
        }
        say("{\"done\":" + counted.sum() + "}");
    }

    private void gap() throws Exception {
        byte[] value = values().get(0);
        List<Double> times = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer("none", 0, 16_384)) {
            watch(GAP_LOOK_S);
            while (running()) {
                producer.send(new ProducerRecord<>(text("topic"), value)).get(WAIT_S, TimeUnit.SECONDS);
                times.add(System.nanoTime() / 1e6);
                counted.increment();
            }
        }
        say("{\"times_ms\":" + times + "}");
    }

    private void make() throws Exception {
        int count = number("count");
        List<NewTopic> topics = new ArrayList<>();
        for (int at = 0; at < count; at++) {
            String name = count == 1 ? text("topic") : text("topic") + "-" + at;
            topics.add(new NewTopic(name, number("partitions"), REPLICATION));
        }
        List<String> names = topics.stream().map(NewTopic::name).collect(Collectors.toList());
        Properties properties = common();
        properties.put("default.api.timeout.ms", 120_000);
        try (Admin admin = Admin.create(properties)) {
            long began = System.nanoTime();
            admin.createTopics(topics).all().get(2 * WAIT_S, TimeUnit.SECONDS);
            while (!ready(admin, names)) {
                Thread.sleep(20);
            }
            say("{\"made_s\":" + (System.nanoTime() - began) / 1e9 + "}");
        }
    }

    /** Whether every partition has a leader. */
    private static boolean ready(Admin admin, List<String> names) throws Exception {
        try {
            return admin.describeTopics(names).allTopicNames().get(WAIT_S, TimeUnit.SECONDS).values().stream()
                    .flatMap(topic -> topic.partitions().stream())
                    .allMatch(partition -> partition.leader() != null && !partition.leader().isEmpty());
        } catch (java.util.concurrent.ExecutionException error) {
            if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                return false;
            }
            throw error;
        }
    }

    private void leader() throws Exception {
        String topic = text("topic");
        try (Admin admin = Admin.create(common())) {
            TopicDescription found =
                    admin.describeTopics(List.of(topic)).allTopicNames().get(WAIT_S, TimeUnit.SECONDS).get(topic);
            say("{\"leader\":" + found.partitions().get(0).leader().id() + "}");
        }
    }
}
