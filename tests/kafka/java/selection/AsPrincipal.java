package selection;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.mockito.Mockito;

/**
 * Of one class, which sends its requests to the only broker as whoever it sets in that broker's process: they go to our
 * node, to whom the client logs in by SASL as just that principal.
 */
public final class AsPrincipal {
    private static final String TESTS = "kafka.server.ControllerMutationQuotaTest";
    private static final String PASSWORD = "a-password";
    private static final int HANDSHAKE = 17;
    private static final int AUTHENTICATE = 36;

    private AsPrincipal() {
    }

    /** A connection that has logged in; none where a test connects as others do. */
    public static Socket connect(Object test, Object server) throws IOException, ReflectiveOperationException {
        if (!test.getClass().getName().equals(TESTS) || Mockito.mockingDetails(server).isMock()) {
            return null;
        }
        Object tests = Class.forName(TESTS + "$").getField("MODULE$").get(null);
        KafkaPrincipal principal = (KafkaPrincipal) tests.getClass().getMethod("principal").invoke(tests);
        Socket socket = new Socket(InetAddress.getLoopbackAddress(), Integer.getInteger("controller.login.port"));
        byte[] mechanism = "PLAIN".getBytes(StandardCharsets.UTF_8);
        ask(socket, HANDSHAKE, 1, mechanism, false);
        byte[] token = ("\0" + principal.getName() + "\0" + PASSWORD).getBytes(StandardCharsets.UTF_8);
        ask(socket, AUTHENTICATE, 0, token, true);
        return socket;
    }

    private static void ask(Socket socket, int key, int version, byte[] content, boolean isLong) throws IOException {
        DataOutputStream out = new DataOutputStream(socket.getOutputStream());
        out.writeInt(2 + 2 + 4 + 2 + (isLong ? 4 : 2) + content.length);
        out.writeShort(key);
        out.writeShort(version);
        out.writeInt(1);
        out.writeShort(-1);
        if (isLong) {
            out.writeInt(content.length);
        } else {
            out.writeShort(content.length);
        }
        out.write(content);
        out.flush();
        DataInputStream in = new DataInputStream(socket.getInputStream());
        byte[] answer = new byte[in.readInt()];
        in.readFully(answer);
        if (answer[4] != 0 || answer[5] != 0) {
            throw new IOException("not logged in: " + new String(answer, StandardCharsets.UTF_8));
        }
    }

    /** Instead of connecting to a broker. */
    public static final class Connection {
        private Connection() {
        }

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static Socket enter(@Advice.This Object test, @Advice.Argument(0) Object server)
                throws IOException, ReflectiveOperationException {
            return connect(test, server);
        }

        @Advice.OnMethodExit
        public static void exit(@Advice.Enter Socket ours, @Advice.Return(readOnly = false) Socket returned) {
            if (ours != null) {
                returned = ours;
            }
        }
    }
}
