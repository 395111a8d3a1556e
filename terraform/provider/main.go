// The Terraform provider of Penstock.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"penstock.example/terraform/provider/internal/provider"
)

// version is set by the linker.
var version = "0.2.0-dev"

func main() {
	debug := flag.Bool("debug", false, "let a debugger attach to the provider")
	flag.Parse()
	err := providerserver.Serve(context.Background(), provider.New(version), providerserver.ServeOpts{
		Address: provider.Address,
		Debug:   *debug,
	})
	if err != nil {
		log.Fatal(err)
	}
}
