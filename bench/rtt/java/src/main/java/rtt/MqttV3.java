package rtt;

import org.eclipse.paho.client.mqttv3.IMqttDeliveryToken;
import org.eclipse.paho.client.mqttv3.MqttAsyncClient;
import org.eclipse.paho.client.mqttv3.MqttCallback;
import org.eclipse.paho.client.mqttv3.MqttConnectOptions;
import org.eclipse.paho.client.mqttv3.MqttMessage;
import org.eclipse.paho.client.mqttv3.persist.MemoryPersistence;

/** Paho's client for MQTT 3.1.1. */
final class MqttV3 implements Library {
    private final MqttAsyncClient client;
    private final int qos;

    MqttV3(Address address, int qos) throws Exception {
        this.qos = qos;
        client = new MqttAsyncClient(address.url(), "rtt" + ProcessHandle.current().pid(), new MemoryPersistence());
        MqttConnectOptions options = new MqttConnectOptions();
        options.setMqttVersion(MqttConnectOptions.MQTT_VERSION_3_1_1);
        options.setCleanSession(true);
        options.setKeepAliveInterval(0);
        options.setSocketFactory(address.sockets());
        client.connect(options).waitForCompletion();
    }

    @Override
    public void subscribe(String filter, Handler handler) throws Exception {
        client.setCallback(new MqttCallback() {
            @Override
            public void connectionLost(Throwable cause) {
                Driver.die("the connection is over: " + cause);
            }

            @Override
            public void messageArrived(String topic, MqttMessage message) throws Exception {
                handler.onPayload(message.getPayload());
            }

            @Override
            public void deliveryComplete(IMqttDeliveryToken token) {}
        });
        client.subscribe(filter, qos).waitForCompletion();
    }

    @Override
    public void publish(String topic, byte[] payload) throws Exception {
        client.publish(topic, payload, qos, false);
    }
}
