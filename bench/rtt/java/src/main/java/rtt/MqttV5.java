package rtt;

import org.eclipse.paho.mqttv5.client.IMqttToken;
import org.eclipse.paho.mqttv5.client.MqttAsyncClient;
import org.eclipse.paho.mqttv5.client.MqttCallback;
import org.eclipse.paho.mqttv5.client.MqttConnectionOptions;
import org.eclipse.paho.mqttv5.client.MqttDisconnectResponse;
import org.eclipse.paho.mqttv5.client.persist.MemoryPersistence;
import org.eclipse.paho.mqttv5.common.MqttException;
import org.eclipse.paho.mqttv5.common.MqttMessage;
import org.eclipse.paho.mqttv5.common.packet.MqttProperties;

/** Paho's client for MQTT 5.0. */
final class MqttV5 implements Library {
    private final MqttAsyncClient client;
    private final int qos;

    MqttV5(Address address, int qos) throws Exception {
        this.qos = qos;
        client = new MqttAsyncClient(address.url(), "rtt" + ProcessHandle.current().pid(), new MemoryPersistence());
        MqttConnectionOptions options = new MqttConnectionOptions();
        options.setCleanStart(true);
        options.setKeepAliveInterval(0);
        options.setSocketFactory(address.sockets());
        client.connect(options).waitForCompletion();
    }

    @Override
    public void subscribe(String filter, Handler handler) throws Exception {
        client.setCallback(new MqttCallback() {
            @Override
            public void disconnected(MqttDisconnectResponse response) {
                Driver.die("the connection is over: " + response);
            }

            @Override
            public void mqttErrorOccurred(MqttException exception) {
                Driver.die("the library failed: " + exception);
            }

            @Override
            public void messageArrived(String topic, MqttMessage message) throws Exception {
                handler.onPayload(message.getPayload());
            }

            @Override
            public void deliveryComplete(IMqttToken token) {}

            @Override
            public void connectComplete(boolean reconnect, String serverUri) {}

            @Override
            public void authPacketArrived(int reasonCode, MqttProperties properties) {}
        });
        client.subscribe(filter, qos).waitForCompletion();
    }

    @Override
    public void publish(String topic, byte[] payload) throws Exception {
        client.publish(topic, payload, qos, false);
    }
}
