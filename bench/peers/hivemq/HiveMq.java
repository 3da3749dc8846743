import com.hivemq.embedded.EmbeddedHiveMQ;
import java.nio.file.Files;
import java.nio.file.Path;

/** HiveMQ Community Edition on 127.0.0.1 and the given port, with its files in the current folder. */
final class HiveMq {
    private static final String CONFIGURATION = """
            <?xml version="1.0"?>
            <hivemq>
              <listeners><tcp-listener><port>%s</port><bind-address>127.0.0.1</bind-address></tcp-listener></listeners>
              <persistence><mode>in-memory</mode></persistence>
              <anonymous-usage-statistics><enabled>false</enabled></anonymous-usage-statistics>
            </hivemq>
            """;

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of("").toAbsolutePath();
        Path configuration = Files.createDirectories(folder.resolve("conf"));
        Files.writeString(configuration.resolve("config.xml"), CONFIGURATION.formatted(arguments[0]));
        EmbeddedHiveMQ broker = EmbeddedHiveMQ.builder()
                .withConfigurationFolder(configuration)
                .withDataFolder(Files.createDirectories(folder.resolve("data")))
                .withExtensionsFolder(Files.createDirectories(folder.resolve("extensions")))
                .build();
        broker.start().get();
        Thread.currentThread().join();
    }
}
