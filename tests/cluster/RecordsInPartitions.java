import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes numbered records into all partitions of a topic, or reads them back.
 *
 * <p>`write SERVERS TOPIC PARTITIONS RECORD_BYTES FILL_BYTES BYTES_S LEDGER` first writes so many bytes as fast as it
 * can, then at a rate until SIGTERM, with acks=all and idempotence. It prints a line a second: the time in
 * milliseconds, the bytes acknowledged so far. The ledger has a bit for each number that was acknowledged.
 *
 * <p>`read SERVERS TOPIC PARTITIONS LEDGER` prints how many were acknowledged, and how many records are lost, there
 * twice, and out of order.
 */
public final class RecordsInPartitions {
    private static final int IN_DEBT_S = 1;
    private static final long READ_WITHIN_MS = 600_000;

    private final String servers;
    private final String topic;
    private final int partitions;

    private RecordsInPartitions(String[] words) {
        servers = words[1];
        topic = words[2];
        partitions = Integer.parseInt(words[3]);
    }

    public static void main(String[] words) throws Exception {
        RecordsInPartitions records = new RecordsInPartitions(words);
        if (words[0].equals("write")) {
            long fill = Long.parseLong(words[5]);
            records.write(Integer.parseInt(words[4]), fill, Long.parseLong(words[6]), Path.of(words[7]));
        } else {
            records.read(Path.of(words[4]));
        }
    }

    private void write(int size, long fill, long rate, Path ledger) throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            asked.countDown();
            try {
                ended.await();
            } catch (InterruptedException thrown) {
                Thread.currentThread().interrupt();
            }
        }));
        BitSet acknowledged = new BitSet();
        AtomicLong bytes = new AtomicLong();
        AtomicLong refused = new AtomicLong();
        Thread speaker = new Thread(() -> say(bytes));
        speaker.setDaemon(true);
        speaker.start();
        byte[] padding = new byte[size];
        long number = 0;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(forProducer())) {
            long began = 0;
            long sent = 0;
            while (asked.getCount() > 0) {
                boolean isFilling = number * size < fill;
                if (!isFilling && began == 0) {
                    producer.flush();
                    System.out.println("filled");
                    began = System.nanoTime();
                }
                long due = isFilling ? 1 : (System.nanoTime() - began) / 1_000 * rate / 1_000_000 / size - sent;
                if (!isFilling && due > IN_DEBT_S * rate / size) { // after a standstill it does not make up for it
                    sent += due - IN_DEBT_S * rate / size;
                }
                for (long i = 0; i < due && asked.getCount() > 0; i++) {
                    int bit = (int) number;
                    byte[] value = padding.clone();
                    ByteBuffer.wrap(value).putLong(number);
                    producer.send(new ProducerRecord<>(topic, (int) (number % partitions), null, value), (done, error) -> {
                        if (error != null) {
                            System.out.println("refused: " + error);
                            refused.incrementAndGet();
                            return;
                        }
                        acknowledged.set(bit);
                        bytes.addAndGet(size);
                    });
                    number++;
                    sent += isFilling ? 0 : 1;
                }
                if (!isFilling) {
                    Thread.sleep(5);
                }
            }
            producer.flush();
        }
        Files.write(ledger, acknowledged.toByteArray());
        System.out.println("sent " + number + " refused " + refused);
        System.out.flush();
        ended.countDown();
    }

    private static void say(AtomicLong bytes) {
        try {
            while (true) {
                System.out.println(System.currentTimeMillis() + " " + bytes.get());
                Thread.sleep(1_000);
            }
        } catch (InterruptedException thrown) {
            Thread.currentThread().interrupt();
        }
    }

    private void read(Path ledger) throws IOException {
        BitSet found = new BitSet();
        long twice = 0;
        long disordered = 0;
        long[] latest = new long[partitions];
        Arrays.fill(latest, -1);
        List<TopicPartition> all = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            all.add(new TopicPartition(topic, partition));
        }
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(forConsumer())) {
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            long deadline = System.currentTimeMillis() + READ_WITHIN_MS;
            while (!all.isEmpty() && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    long number = ByteBuffer.wrap(record.value()).getLong();
                    twice += found.get((int) number) ? 1 : 0;
                    disordered += number < latest[record.partition()] ? 1 : 0;
                    latest[record.partition()] = number;
                    found.set((int) number);
                }
                if (all.removeIf(at -> consumer.position(at) >= ends.get(at))) {
                    consumer.assign(all);
                }
            }
        }
        BitSet lost = BitSet.valueOf(Files.readAllBytes(ledger));
        int acknowledged = lost.cardinality();
        lost.andNot(found);
        System.out.printf("{\"acknowledged\":%d,\"lost\":%d,\"twice\":%d,\"disordered\":%d}%n",
            acknowledged, lost.cardinality(), twice, disordered);
    }

    private Properties forProducer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        properties.put("acks", "all");
        properties.put("enable.idempotence", "true");
        properties.put("linger.ms", "50");
        properties.put("batch.size", "262144");
        properties.put("max.block.ms", "120000");
        properties.put("metadata.max.age.ms", "5000");
        return properties;
    }

    private Properties forConsumer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("enable.auto.commit", "false");
        properties.put("max.poll.records", "5000");
        return properties;
    }
}
