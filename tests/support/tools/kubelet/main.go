// Command kubelet is the kubelet, and under the name kube-proxy it is kube-proxy.
package main

import (
	"context"
	"os"
	"path/filepath"

	"k8s.io/component-base/cli"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	if filepath.Base(os.Args[0]) == "kube-proxy" {
		os.Exit(cli.Run(proxy.NewProxyCommand()))
	}
	os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
}
