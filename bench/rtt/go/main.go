// Command driver is a driver in Go: `LIBRARY echo HOST PORT QOS NAME` or `LIBRARY ping HOST PORT QOS DIGIT`, where LIBRARY is
// tautwire or paho. See README.md.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"
)

const payloadBytes = 16

// library is a connected client.
type library interface {
	// subscribe calls onPayload with each message, one after another.
	subscribe(filter string, onPayload func(payload []byte))
	publish(topic string, payload []byte)
}

var libraries = map[string]func(address string, qos byte) library{"tautwire": openTautwire, "paho": openPaho}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 7 || libraries[os.Args[1]] == nil {
		log.Fatal("usage: tautwire|paho echo|ping HOST PORT QOS NAME")
	}
	task, host, port, qos, name := os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]
	client := libraries[os.Args[1]](host+":"+port, qos[0]-'0')
	if task == "echo" {
		echo(client, qos, name)
	} else {
		ping(client, qos, name)
	}
}

func echo(client library, qos, name string) {
	var back [10]string
	for digit := range back {
		back[digit] = fmt.Sprintf("rtt/%s/back/%d", qos, digit)
	}
	client.subscribe("rtt/"+qos+"/there/"+name, func(payload []byte) {
		client.publish(back[payload[0]-'0'], payload)
	})
	fmt.Println("ready")
	select {}
}

func ping(client library, qos, digit string) {
	var (
		topic   string
		payload = make([]byte, payloadBytes)
		number  int
		count   int
		times   []int64
		end     time.Time
		sent    time.Time
		done    = make(chan struct{})
	)
	ask := func() {
		number++
		copy(payload, fmt.Sprintf("%s%015d", digit, number))
		sent = time.Now()
		client.publish(topic, payload)
	}
	client.subscribe("rtt/"+qos+"/back/"+digit, func(reply []byte) {
		now := time.Now()
		if !bytes.Equal(reply, payload) {
			log.Fatal("not the reply to the last message")
		}
		times = append(times, now.Sub(sent).Nanoseconds())
		if len(times) < count && now.Before(end) {
			ask()
		} else {
			done <- struct{}{}
		}
	})
	fmt.Println("ready")
	commands, out := bufio.NewScanner(os.Stdin), bufio.NewWriter(os.Stdout)
	for commands.Scan() {
		var server string
		var limitMs int64
		if _, err := fmt.Sscan(commands.Text(), &server, &count, &limitMs); err != nil {
			log.Fatal("expected: SERVER COUNT LIMIT_MS")
		}
		topic, times = "rtt/"+qos+"/there/"+server, times[:0]
		end = time.Now().Add(time.Duration(limitMs) * time.Millisecond)
		ask()
		<-done
		for _, each := range times {
			out.WriteString(strconv.FormatInt(each, 10))
			out.WriteByte(' ')
		}
		out.WriteByte('\n')
		out.Flush()
	}
}
