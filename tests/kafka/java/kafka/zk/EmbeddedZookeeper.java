package kafka.zk;

import java.io.BufferedReader;
import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.utils.Utils;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.NIOServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/**
 * What Kafka's tests start before their first broker: a ZooKeeper in this process and, beside it, this project's
 * controller as a process of its own. Stands on the class path before Kafka's class of the same name, and has its
 * accessors.
 */
public final class EmbeddedZookeeper implements Closeable {
    private static final int TICK_MS = 800;
    private static final int START_LIMIT_S = 60;
    private static final int ATTEMPTS = 3;
    private static final AtomicInteger STARTED = new AtomicInteger();

    /**
     * Runs the rest of its arguments until its input ends: when the tests' JVM dies, however it dies, the controller
     * dies, too. Threads that wait here for a process would be surplus threads to Kafka's tests.
     */
    private static final String UNTIL_END_OF_INPUT =
        "exec 3<&0; \"$@\" 3<&- & daemon=$!; { cat <&3 >/dev/null; kill -9 $daemon; } & wait $daemon";

    private static volatile EmbeddedZookeeper latest;

    private final File snapshotDir = directory("snapshots");
    private final File logDir = directory("log");
    private final ZooKeeperServer zookeeper;
    private final NIOServerCnxnFactory factory = new NIOServerCnxnFactory();
    private final int port;
    private Path log;
    private Properties settings;
    private Process controller;
    private boolean isShut;

    public EmbeddedZookeeper() {
        System.setProperty("zookeeper.forceSync", "no");
        try {
            zookeeper = new ZooKeeperServer(snapshotDir, logDir, TICK_MS);
            factory.configure(new InetSocketAddress("127.0.0.1", 0), 0);
            factory.startup(zookeeper);
            port = zookeeper.getClientPort();
            Path directory = Paths.get(System.getProperty("controller.directory"));
            String name = "controller-" + STARTED.incrementAndGet();
            log = directory.resolve(name + ".log");
            startController(directory.resolve(name + ".properties"));
            latest = this;
        } catch (IOException | InterruptedException | RuntimeException e) {
            shutdown();
            throw new IllegalStateException("neither ZooKeeper nor a controller: " + e.getMessage(), e);
        }
    }

    /** How many nodes, with ours, are registered where the current test runs. */
    public static int nodes() {
        try {
            return latest.zookeeper.getZKDatabase().getChildren("/brokers/ids", new Stat(), null).size();
        } catch (KeeperException.NoNodeException e) {
            return 0;
        }
    }

    /** A figure among the metrics of our controller, where the current test runs. */
    public static long figure(String name) {
        String url = "http://127.0.0.1:" + latest.settings.getProperty("http.port") + "/metrics";
        try (var lines = new BufferedReader(new InputStreamReader(new URL(url).openStream(), StandardCharsets.UTF_8))) {
            String line = lines.lines().filter(each -> each.startsWith(name + " ")).findFirst().orElseThrow();
            return (long) Double.parseDouble(line.substring(name.length()));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** What our node was told where the current test runs. */
    public static Properties settings() {
        return latest.settings;
    }

    public int port() {
        return port;
    }

    public ZooKeeperServer zookeeper() {
        return zookeeper;
    }

    public NIOServerCnxnFactory factory() {
        return factory;
    }

    public File snapshotDir() {
        return snapshotDir;
    }

    public File logDir() {
        return logDir;
    }

    public int tickTime() {
        return TICK_MS;
    }

    public void shutdown() {
        if (isShut) {
            return;
        }
        isShut = true;
        if (controller != null) {
            watchCharge();
            endController();
        }
        factory.shutdown();
        try {
            zookeeper.getZKDatabase().close();
            Utils.delete(logDir);
            Utils.delete(snapshotDir);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void close() {
        shutdown();
    }

    /** Without this, tests would pass that Kafka's own controller has served. */
    private void watchCharge() {
        String holder = read("/controller");
        String epoch = read("/controller_epoch");
        if (!holder.replace(" ", "").contains("\"brokerid\":" + settings.getProperty("broker.id") + ",")) {
            outOfCharge("our controller was not in charge in the end, but: " + holder);
        } else if (!epoch.equals(String.valueOf(ourClaims()))) {
            outOfCharge("another controller was in charge for a while: epoch " + epoch);
        }
    }

    private static void outOfCharge(String how) {
        System.setProperty("chosen.out-of-charge", how);
    }

    private String read(String path) {
        try {
            return new String(zookeeper.getZKDatabase().getData(path, new Stat(), null), StandardCharsets.UTF_8);
        } catch (KeeperException.NoNodeException e) {
            return "nobody";
        }
    }

    private long ourClaims() {
        try (var lines = Files.lines(log)) {
            return lines.filter(line -> line.contains("the claim was accepted")).count();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Ports that were free may be taken by others before they are used. */
    private void startController(Path file) throws IOException, InterruptedException {
        for (int attempt = 1;; attempt++) {
            controller = start(configuration(file));
            try {
                awaitClaim();
                return;
            } catch (IllegalStateException e) {
                if (attempt == ATTEMPTS || !e.getMessage().contains("cannot listen")) {
                    throw e;
                }
            }
        }
    }

    private Process start(Path configuration) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(
            "sh", "-c", UNTIL_END_OF_INPUT, "sh", System.getProperty("controller.python"),
            "-m", "controller", "run", "--config", configuration.toString(), "--new-cluster");
        return builder.redirectErrorStream(true).redirectOutput(log.toFile()).start();
    }

    /** What the runner wrote for this class of tests, and what only this process knows. */
    private Path configuration(Path file) throws IOException {
        Properties properties = new Properties();
        String method = System.getProperty("chosen.current", "");
        for (String name : List.of("settings", "settings-" + method)) {
            Path settings = file.resolveSibling(name + ".properties");
            if (Files.exists(settings)) {
                try (var in = Files.newBufferedReader(settings)) {
                    properties.load(in);
                }
            }
        }
        properties.setProperty("zookeeper.connect", "127.0.0.1:" + port);
        int ours = freePort();
        String listeners = properties.getProperty("listeners", "PLAINTEXT://localhost:0").replace(":0", ":" + ours);
        if (properties.getProperty("listener.security.protocol.map", "").contains("LOGIN:")) {
            int login = freePort();
            listeners += ",LOGIN://localhost:" + login;
            System.setProperty("controller.login.port", String.valueOf(login));
        }
        properties.setProperty("listeners", listeners);
        System.setProperty("controller.port", String.valueOf(ours));
        properties.setProperty("http.port", String.valueOf(freePort()));
        settings = properties;
        try (var out = Files.newBufferedWriter(file)) {
            properties.store(out, null);
        }
        return file;
    }

    private void awaitClaim() throws IOException, InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(START_LIMIT_S);
        while (!isClaimed()) {
            if (!controller.isAlive() || System.nanoTime() > deadline) {
                List<String> lines = Files.readAllLines(log);
                throw new IllegalStateException(
                    "the controller " + (controller.isAlive() ? "has not claimed /controller" : "ended") + ": "
                        + String.join("\n", lines.subList(Math.max(0, lines.size() - 10), lines.size())));
            }
            Thread.sleep(20);
        }
    }

    private boolean isClaimed() {
        return zookeeper.getZKDatabase().getNode("/controller") != null;
    }

    private void endController() {
        try {
            controller.getOutputStream().close();
            controller.waitFor(10, TimeUnit.SECONDS);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static File directory(String of) {
        try {
            return Files.createTempDirectory("kafka-tests-" + of).toFile();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }
}
