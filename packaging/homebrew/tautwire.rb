class Tautwire < Formula
  desc "MQTT broker that persists what it acknowledges, and its tools"
  homepage "https://github.com/tautwire/tautwire"
  version "@VERSION@"
  license any_of: ["Apache-2.0", "MIT"]

  depends_on :linux

  on_intel do
    url "https://github.com/tautwire/tautwire/releases/download/v@VERSION@/tautwire-@VERSION@-x86_64-linux.tar.gz"
    sha256 "@SHA256_x86_64@"
  end

  on_arm do
    url "https://github.com/tautwire/tautwire/releases/download/v@VERSION@/tautwire-@VERSION@-aarch64-linux.tar.gz"
    sha256 "@SHA256_aarch64@"
  end

  def install
    bin.install "tautwire"
    bash_completion.install "completions/bash/tautwire"
    zsh_completion.install "completions/zsh/_tautwire"
    fish_completion.install "completions/fish/tautwire.fish"
    man1.install Dir["man/*.1"]
    man5.install Dir["man/*.5"]
  end

  service do
    run [opt_bin/"tautwire", "serve"]
    keep_alive true
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/tautwire --version")
    (testpath/"tautwire.toml").write "threads = 1\n"
    assert_match "right", shell_output("#{bin}/tautwire config check --config tautwire.toml")
  end
end
