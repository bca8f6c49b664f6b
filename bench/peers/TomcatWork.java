// Owns: Tomcat's side of the experiment of S3 and of the peers: the answers of performance_test.
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicLong;

public final class TomcatWork extends HttpServlet {
    private static final byte[] HELLO = "Hello, World!".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] SLEPT = "slept 200 ms".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] LARGE = new byte[100 * 1024];
    private final AtomicLong visits = new AtomicLong();

    static {
        Arrays.fill(LARGE, (byte) 'a');
    }

    private byte[] body(String path) throws IOException {
        switch (path) {
            case "/count":
                return Long.toString(visits.incrementAndGet()).getBytes(StandardCharsets.US_ASCII);
            case "/sleep200":
                try {
                    Thread.sleep(200);
                } catch (InterruptedException interrupted) {
                    throw new IOException(interrupted);
                }
                return SLEPT;
            case "/large/100kb":
                return LARGE;
            default:
                return HELLO;
        }
    }

    @Override
    protected void doGet(HttpServletRequest req, HttpServletResponse res) throws IOException {
        byte[] body = body(req.getServletPath());
        res.setContentType("text/plain");
        res.setContentLength(body.length);
        res.getOutputStream().write(body);
    }
}
