module github.com/tautwire/tautwire/clients/go

go 1.24
