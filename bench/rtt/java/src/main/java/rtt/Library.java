package rtt;

import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import javax.net.SocketFactory;

/** The interface to a library: a clean session without a keep alive, at one QoS. */
interface Library {
    /** Returns once it is acknowledged; the handler runs on the library's thread, and may publish. */
    void subscribe(String filter, Handler handler) throws Exception;

    /** Does not wait for the acknowledgement. */
    void publish(String topic, byte[] payload) throws Exception;

    interface Handler {
        void onPayload(byte[] payload) throws Exception;
    }

    /** The address of the broker, and whether to set {@code TCP_NODELAY}, which the library does not set itself. */
    record Address(String host, int port, boolean nodelay) {
        String url() {
            return "tcp://%s:%d".formatted(host, port);
        }

        SocketFactory sockets() {
            return nodelay ? new AtOnce() : SocketFactory.getDefault();
        }
    }

    /** Creates sockets with {@code TCP_NODELAY}. The library creates them unconnected. */
    final class AtOnce extends SocketFactory {
        private static final SocketFactory PLAIN = SocketFactory.getDefault();

        @Override
        public Socket createSocket() throws IOException {
            return atOnce(PLAIN.createSocket());
        }

        @Override
        public Socket createSocket(String host, int port) throws IOException {
            return atOnce(PLAIN.createSocket(host, port));
        }

        @Override
        public Socket createSocket(InetAddress host, int port) throws IOException {
            return atOnce(PLAIN.createSocket(host, port));
        }

        @Override
        public Socket createSocket(String host, int port, InetAddress local, int localPort) throws IOException {
            return atOnce(PLAIN.createSocket(host, port, local, localPort));
        }

        @Override
        public Socket createSocket(InetAddress host, int port, InetAddress local, int localPort) throws IOException {
            return atOnce(PLAIN.createSocket(host, port, local, localPort));
        }

        private static Socket atOnce(Socket socket) throws IOException {
            socket.setTcpNoDelay(true);
            return socket;
        }
    }
}
