package selection;

/** Which test runs now, and whether it is the one that asks. */
final class CurrentTest {
    private static final String CLASS = "chosen.current-class";
    private static final String METHOD = "chosen.current";

    private CurrentTest() {
    }

    static void is(String className, String method) {
        System.setProperty(CLASS, className);
        System.setProperty(METHOD, method);
    }

    static String className() {
        return System.getProperty(CLASS, "");
    }

    static String name() {
        return className() + "." + System.getProperty(METHOD, "");
    }

    /** Whether the method that asks was called by the test itself, not by what tests share, nor by a broker. */
    static boolean hasCalled() {
        return StackWalker.getInstance().walk(frames -> frames
            .map(StackWalker.StackFrame::getClassName)
            .dropWhile(name -> name.startsWith("selection."))
            .skip(1)
            .findFirst()
            .filter(name -> name.equals(className()) || name.startsWith(className() + "$"))
            .isPresent());
    }
}
