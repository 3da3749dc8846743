package rtt;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.SynchronousQueue;

/** A driver on Paho for Java: {@code mqttv3|mqttv5 [--nagle] echo|ping|self HOST PORT QOS NAME}. See README.md. */
public final class Driver {
    private static final int PAYLOAD_BYTES = 16;
    private static final String DIGITS = "0123456789abcdef";

    private Driver() {}

    public static void main(String[] arguments) throws Exception {
        boolean nagle = arguments.length == 7 && arguments[1].equals("--nagle");
        if (arguments.length != (nagle ? 7 : 6)) {
            die("usage: mqttv3|mqttv5 [--nagle] echo|ping|self HOST PORT QOS NAME");
        }
        String[] rest = Arrays.copyOfRange(arguments, nagle ? 2 : 1, arguments.length);
        String task = rest[0];
        Library.Address address = new Library.Address(rest[1], Integer.parseInt(rest[2]), !nagle);
        int qos = Integer.parseInt(rest[3]);
        String name = rest[4];
        Library library = arguments[0].equals("mqttv5") ? new MqttV5(address, qos) : new MqttV3(address, qos);
        switch (task) {
            case "echo" -> echo(library, qos, name);
            case "ping" -> new Ping(library, null).run("rtt/%d/back/%s".formatted(qos, name), qos, name);
            case "self" -> {
                String topic = "rtt/%d/back/%s".formatted(qos, name);
                new Ping(library, topic).run(topic, qos, name);
            }
            default -> die("no such task: " + task);
        }
    }

    private static void echo(Library library, int qos, String name) throws Exception {
        String[] back = new String[DIGITS.length()];
        Arrays.setAll(back, digit -> "rtt/%d/back/%c".formatted(qos, DIGITS.charAt(digit)));
        library.subscribe("rtt/%d/there/%s".formatted(qos, name), payload -> {
            int digit = payload.length == PAYLOAD_BYTES ? DIGITS.indexOf(payload[0]) : -1;
            if (digit < 0) {
                die("a payload that no client sends");
            }
            library.publish(back[digit], payload);
        });
        ready();
        Thread.currentThread().join();
    }

    /** Sends requests from the thread that delivers the replies, like a program with callbacks. */
    private static final class Ping {
        private final Library library;
        /** The topic for all messages; {@code null}: that of the server in a command. */
        private final String itself;
        private final SynchronousQueue<String> results = new SynchronousQueue<>();
        private String digit;
        private String topic;
        private byte[] payload;
        private long number;
        private long[] timesNs;
        private int done;
        private long sentNs;
        private long endNs;

        Ping(Library library, String itself) {
            this.library = library;
            this.itself = itself;
        }

        void run(String filter, int qos, String name) throws Exception {
            digit = name;
            library.subscribe(filter, this::onReply);
            ready();
            BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
            for (String line = commands.readLine(); line != null; line = commands.readLine()) {
                String[] words = line.split(" ");
                synchronized (this) {
                    topic = itself != null ? itself : "rtt/%d/there/%s".formatted(qos, words[0]);
                    timesNs = new long[Integer.parseInt(words[1])];
                    done = 0;
                    endNs = System.nanoTime() + Long.parseLong(words[2]) * 1_000_000;
                    ask();
                }
                System.out.println(results.take());
                System.out.flush();
            }
            System.exit(0);
        }

        private synchronized void ask() throws Exception {
            payload = "%s%015d".formatted(digit, ++number).getBytes(StandardCharsets.US_ASCII);
            sentNs = System.nanoTime();
            library.publish(topic, payload);
        }

        private synchronized void onReply(byte[] reply) throws Exception {
            long nowNs = System.nanoTime();
            if (!Arrays.equals(reply, payload)) {
                die("not the reply to the last message");
            }
            timesNs[done++] = nowNs - sentNs;
            if (done < timesNs.length && nowNs < endNs) {
                ask();
                return;
            }
            StringBuilder line = new StringBuilder();
            for (int i = 0; i < done; i++) {
                line.append(timesNs[i]).append(' ');
            }
            results.put(line.toString());
        }
    }

    private static void ready() throws IOException {
        System.out.println("ready");
        System.out.flush();
    }

    static void die(String what) {
        System.err.println(what);
        Runtime.getRuntime().halt(1);
    }
}
