import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/** Runs Kafka's tools one after the other in one runtime: a line each, with the class and its arguments between tabs. */
public final class ToolsInTurn {
    /** The first exit code of the tool that runs: some catch what ends them, and exit again. */
    private static Integer ended;

    public static void main(String[] none) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            ended = ended == null ? code : ended;
            throw new IllegalStateException("exit");
        });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            int code = run(words[0], Arrays.copyOfRange(words, 1, words.length));
            if (code != 0) {
                System.out.println("exit code " + code + ": " + line);
                Runtime.getRuntime().halt(code);
            }
        }
    }

    private static int run(String tool, String[] arguments) throws Exception {
        ended = null;
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (ended == null) {
                throw thrown;
            }
        }
        return ended == null ? 0 : ended;
    }
}
