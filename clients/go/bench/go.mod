module github.com/tautwire/tautwire/clients/go/bench

go 1.26.0

require (
	github.com/eclipse/paho.golang v0.23.0
	github.com/gregoryv/mq v0.28.0
	github.com/mochi-mqtt/server/v2 v2.7.9
	github.com/soypat/natiu-mqtt v0.5.1
	github.com/tautwire/tautwire/clients/go v0.0.0
)

require (
	github.com/BurntSushi/toml v1.4.1-0.20240526193622-a339e1f7089c // indirect
	golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
	honnef.co/go/tools v0.8.2 // indirect
)

replace github.com/tautwire/tautwire/clients/go => ../

tool honnef.co/go/tools/cmd/staticcheck
