// Command driver tests a broker with Eclipse Paho's two Go clients: paho.mqtt.golang for MQTT 3.1.1 and
// paho.golang for MQTT 5.0, because each supports only one version. See --list for the cases.
package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
)

// testCase is one named test case.
type testCase struct {
	name string
	run  func(*run)
}

func main() {
	os.Exit(drive(os.Args[1:], allCases()))
}

func allCases() []testCase {
	var cases []testCase
	for _, each := range bothVersions {
		cases = append(cases, testCase{"v3_" + each.name, func(r *run) { each.run(r, connectV3) }})
	}
	for _, each := range bothVersions {
		cases = append(cases, testCase{"v5_" + each.name, func(r *run) { each.run(r, connectV5) }})
	}
	for _, each := range v5Only {
		cases = append(cases, testCase{"v5_" + each.name, each.run})
	}
	return cases
}

func drive(arguments []string, cases []testCase) int {
	if len(arguments) == 1 && arguments[0] == "--list" {
		for _, each := range cases {
			fmt.Println(each.name)
		}
		return 0
	}
	if len(arguments) < 2 {
		fmt.Fprintln(os.Stderr, "usage: driver HOST PORT [CASE…] | --list")
		return 2
	}
	if _, err := strconv.ParseUint(arguments[1], 10, 16); err != nil {
		fmt.Fprintf(os.Stderr, "not a port: %s\n", arguments[1])
		return 2
	}
	chosen := arguments[2:]
	for _, name := range chosen {
		if !slices.ContainsFunc(cases, func(each testCase) bool { return each.name == name }) {
			fmt.Fprintf(os.Stderr, "unknown case: %s\n", name)
			return 2
		}
	}
	status := 0
	for _, each := range cases {
		if len(chosen) > 0 && !slices.Contains(chosen, each.name) {
			continue
		}
		if err := attempt(each, arguments[0], arguments[1]); err != nil {
			fmt.Printf("FAIL %s: %v\n", each.name, err)
			status = 1
		} else {
			fmt.Printf("ok %s\n", each.name)
		}
	}
	return status
}
