;;; agent-q-mcp-bridge-test.el --- Tests of the ways to the server  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The bridge that hosts start.

;;; Code:

(require 'agent-q-test-mcp)
(require 'agent-q-test-registry)
(require 'seq)

;;;; The bridge

(ert-deftest agent-q-mcp-bridge-passes-on-and-finds-emacs-again ()
  (agent-q-test-mcp-with-tools
    (let ((bridge (agent-q-test-mcp-bridge)))
      (agent-q-test-mcp-introduce bridge "host")
      (should (string-match-p "^ONE$" (car (agent-q-test-mcp-call bridge "t_look" '(:text "one")))))
      (with-current-buffer (agent-q-test-mcp-buffer)
        (should (equal default-directory agent-q-session-root)))
      ;; Emacs goes in mid-call: an answer at once, and one for what is asked then.
      (let ((id (agent-q-test-mcp-begin bridge "t_erase" '(:text "a"))))
        (with-current-buffer (agent-q-test-mcp-buffer)
          (agent-q-test-until (agent-q-call-waiting)))
        (agent-q-mcp-mode -1)
        (should (string-match-p "Emacs went away" (format "%S" (agent-q-test-mcp-answer bridge id)))))
      ;; Hosts show their models the results of calls as they are, and errors as they like.
      (pcase-let ((`(,text . ,error) (agent-q-test-mcp-call bridge "t_look" '(:text "a"))))
        (should (string-match-p "\\`Error: Emacs is not running" text))
        (should (eq t error)))
      (agent-q-mcp-mode 1)
      (process-put bridge 'messages nil)
      (should (string-match-p "^TWO$" (car (agent-q-test-mcp-call bridge "t_look" '(:text "two")))))
      ;; The introduction was repeated without a second answer to the host, and the buffer is the same.
      (should (eql 1 (length (agent-q-mcp-client-buffers))))
      (should (equal (delete-dups (mapcar (lambda (it) (or (plist-get it :method) 'answer))
                                          (process-get bridge 'messages)))
                     '("notifications/tools/list_changed" answer)))
      ;; It ends with its host.
      (process-send-eof bridge)
      (agent-q-test-until (not (process-live-p bridge))))))

(ert-deftest agent-q-mcp-bridge-says-at-once-when-there-is-nothing-to-reach ()
  (agent-q-test-mcp-serving
    (agent-q-mcp-mode -1)
    (let ((bridge (agent-q-test-mcp-bridge)))
      (agent-q-test-mcp-tell bridge '(:jsonrpc "2.0" :method "notifications/initialized"))
      (should (string-match-p "M-x agent-q-mcp-mode"
                              (format "%S" (agent-q-test-mcp-ask bridge "resources/read"))))
      ;; What a dead Emacs left is no Emacs, and one with another bridge is said to be one.
      (let ((socket (expand-file-name "emacs-1.sock" agent-q-mcp-directory))
            (file (expand-file-name "emacs-1.json" agent-q-mcp-directory)))
        (with-temp-file file (insert "{\"pid\":1,\"bridge\":99,\"version\":\"9.9\"}"))
        (should (string-match-p "not running" (format "%S" (agent-q-test-mcp-ask bridge "tools/call"))))
        (let ((other (make-network-process :name "aq-other" :server t :family 'local :noquery t
                                           :service socket)))
          (unwind-protect
              (should (string-match-p "doesn't fit.*version 9.9"
                                      (format "%S" (agent-q-test-mcp-ask bridge "tools/call"))))
            (delete-process other)))))))

(ert-deftest agent-q-mcp-bridge-refuses-a-line-of-100-megabytes ()
  "Nothing of it is kept, and what comes after it is passed on."
  (agent-q-test-mcp-serving
    (let* ((pipe (expand-file-name "host" agent-q-mcp-directory))
           (bridge (agent-q-test-mcp-bridge
                    nil "sh" "-c" (format "mkfifo %s; exec 3<>%s; exec \"$0\" < %s" pipe pipe pipe))))
      (agent-q-test-until (file-exists-p pipe))
      ;; By a program that is quicker at it than Emacs.
      (call-process "sh" nil nil nil "-c"
                    (concat "{ head -c 100000000 /dev/zero | tr '\\0' x; echo; "
                            "echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}'; } > " pipe))
      (should (string-match-p "longer than 8 MB"
                              (plist-get (plist-get (agent-q-test-mcp-refusal bridge) :error) :message)))
      (should (plist-member (agent-q-test-mcp-answer bridge 1) :result))
      (let ((status (format "/proc/%d/status" (process-id bridge))))
        (when (file-readable-p status)
          (with-temp-buffer
            (insert-file-contents status)
            (should (re-search-forward "^VmHWM:\\s-+\\([0-9]+\\) kB" nil t))
            (should (< (string-to-number (match-string 1)) 30000))))))))

(defun agent-q-mcp-bridge-test--other-emacs (answer)
  "Return a server beside ours, as another Emacs.
ANSWER gets the method of each request and returns its result as JSON text,
or nil for none."
  (let ((socket (expand-file-name "emacs-1.sock" agent-q-mcp-directory)))
    (with-temp-file (expand-file-name "emacs-1.json" agent-q-mcp-directory)
      (insert "{\"pid\":1,\"bridge\":1,\"version\":\"0\"}"))
    (make-network-process
     :name "aq-other" :server t :family 'local :noquery t :service socket :coding 'utf-8-unix
     :filter (lambda (process text)
               (dolist (line (split-string text "\n" t))
                 (let* ((message (json-parse-string line :object-type 'plist))
                        (id (plist-get message :id))
                        (result (and id (funcall answer (plist-get message :method)))))
                   (when (and result (process-live-p process))
                     (process-send-string
                      process (format "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n"
                                      (json-serialize id) result)))))))))

(defun agent-q-mcp-bridge-test--end-other (other)
  "End OTHER, as an Emacs that ends removes its files."
  (delete-process other)
  (dolist (connection (process-list))
    (when (string-prefix-p "aq-other" (process-name connection))
      (delete-process connection)))
  (dolist (file '("emacs-1.sock" "emacs-1.json"))
    (ignore-errors (delete-file (expand-file-name file agent-q-mcp-directory)))))

(defmacro agent-q-mcp-bridge-test--beside (answer &rest body)
  "Run BODY while another Emacs serves whose results ANSWER returns."
  (declare (indent 1) (debug t))
  `(let ((other (agent-q-mcp-bridge-test--other-emacs ,answer)))
     (unwind-protect (progn ,@body)
       (agent-q-mcp-bridge-test--end-other other))))

(defun agent-q-mcp-bridge-test--others (affinity)
  "Return a function that answers as an Emacs with AFFINITY to every directory."
  (lambda (method)
    (pcase method
      ("agent-q/affinity" (format "{\"affinity\":%d}" affinity))
      (_ "{\"who\":\"other\",\"content\":[{\"type\":\"text\",\"text\":\"of the other\"}]}"))))

(defun agent-q-mcp-bridge-test--said (bridge tool text)
  "Return as text what a call of TOOL with TEXT through BRIDGE is answered."
  (format "%S" (agent-q-test-mcp-answer bridge (agent-q-test-mcp-begin bridge tool `(:text ,text)))))

(ert-deftest agent-q-mcp-bridge-takes-the-emacs-of-its-directory ()
  (agent-q-test-mcp-serving
    (agent-q-mcp-bridge-test--beside (agent-q-mcp-bridge-test--others 4)
      (should (equal "other" (plist-get (plist-get (agent-q-test-mcp-ask (agent-q-test-mcp-bridge) "ping")
                                                   :result)
                                        :who)))))
  ;; Where nobody can tell which is meant, none is.
  (agent-q-test-mcp-with-tools
    (agent-q-mcp-bridge-test--beside (agent-q-mcp-bridge-test--others 0)
      (let ((bridge (agent-q-test-mcp-bridge "/")))
        (agent-q-test-mcp-introduce bridge)
        (should (string-match-p "Several Emacsen serve agent-q.*none of them has an image or a file of / open"
                                (agent-q-mcp-bridge-test--said bridge "t_look" "a")))))
    ;; One that is busy is waited for, and before it has said anything no other one is taken for it.
    (let ((busy 1.2))
      (agent-q-mcp-bridge-test--beside
          (lambda (method)
            (unless (and (equal method "agent-q/affinity") (null busy))
              (when (equal method "agent-q/affinity")
                (sleep-for busy))
              (funcall (agent-q-mcp-bridge-test--others 3) method)))
        (should (string-match-p "of the other" (agent-q-mcp-bridge-test--said (agent-q-test-mcp-bridge "/")
                                                                              "t_look" "a")))
        (setq busy nil)
        (should (string-match-p "process id 1 does not say whether / is its own.*Nothing was done"
                                (agent-q-mcp-bridge-test--said (agent-q-test-mcp-bridge "/")
                                                               "t_look" "a")))))))

(ert-deftest agent-q-mcp-bridge-says-when-it-would-go-on-elsewhere ()
  "It does not go on in an Emacs of another project unasked, and comes back."
  (agent-q-test-mcp-with-tools
    (let ((bridge (agent-q-test-mcp-bridge)))
      (agent-q-test-mcp-introduce bridge "host")
      (should (string-match-p "ONE" (agent-q-mcp-bridge-test--said bridge "t_look" "one")))
      (agent-q-mcp-bridge-test--beside (agent-q-mcp-bridge-test--others 0)
        (agent-q-mcp-mode -1)
        (agent-q-test-until (string-match-p "other" (format "%S" (agent-q-test-mcp-ask bridge "ping"))))
        (should (string-match-p "Nothing was done: the Emacs that your calls went to is gone.*process id 1"
                                (agent-q-mcp-bridge-test--said bridge "t_look" "two")))
        (should (string-match-p "of the other" (agent-q-mcp-bridge-test--said bridge "t_look" "two")))
        (agent-q-mcp-mode 1)
        (should (string-match-p "THREE" (agent-q-mcp-bridge-test--said bridge "t_look" "three")))))))

(ert-deftest agent-q-mcp-bridge-tells-its-host-of-tools-before-emacs-is-there ()
  (agent-q-test-mcp-with-tools
    (agent-q-mcp-mode -1)
    (let ((bridge (agent-q-test-mcp-bridge)))
      (cl-flet ((listed () (mapcar (lambda (it) (plist-get it :name))
                                   (plist-get (plist-get (agent-q-test-mcp-ask bridge "tools/list") :result)
                                              :tools))))
        (let ((introduction (agent-q-test-mcp-introduce bridge "early" "2025-03-26")))
          (should (equal "2025-03-26" (plist-get introduction :protocolVersion)))
          (should (string-match-p "eval_form" (plist-get introduction :instructions))))
        (should (member "eval_form" (listed)))
        (dolist (method '("prompts/list" "resources/list" "ping"))
          (should (plist-member (agent-q-test-mcp-ask bridge method) :result)))
        (should (string-match-p "Emacs is not running" (agent-q-mcp-bridge-test--said bridge "t_look" "a")))
        (agent-q-mcp-mode 1)
        (should (string-match-p "^A$" (car (agent-q-test-mcp-call bridge "t_look" '(:text "a")))))
        (should (agent-q-test-mcp-find bridge (lambda (it) (equal "notifications/tools/list_changed"
                                                                  (plist-get it :method)))))
        (should (member "t_look" (listed)))
        (should (equal (buffer-name (agent-q-test-mcp-buffer)) "*agent-q: early 1*"))))))

(ert-deftest agent-q-mcp-bridge-answers-for-an-emacs-that-was-stopped ()
  "It takes what it is sent and says nothing; once that is known it is sent nothing more."
  (agent-q-test-mcp-serving
    (agent-q-mcp-mode -1)
    (let ((asked nil) (stopped nil))
      (agent-q-mcp-bridge-test--beside
          (lambda (method)
            (push method asked)
            (cond (stopped nil)
                  ((equal method "agent-q/affinity") "{\"affinity\":3}")))
        (let ((bridge (agent-q-test-mcp-bridge)))
          (dolist (why '("Whether this was done is not known" "Nothing was done"))
            (should (string-match-p (concat "Emacs does not respond.*" why)
                                    (car (agent-q-test-mcp-call bridge "eval_form" '(:form "1")))))
            (setq stopped t))
          (should (equal '("agent-q/affinity" "tools/call" "ping" "agent-q/affinity" "ping")
                         (reverse asked))))))))

(ert-deftest agent-q-mcp-bridge-waits-for-the-lisp-of-an-emacs-that-was-started-again ()
  (agent-q-test-mcp-with-tools
    (let ((bridge (agent-q-test-mcp-bridge)) (affinity -1000))
      (agent-q-test-mcp-introduce bridge "host")
      (should (string-match-p "ONE" (agent-q-mcp-bridge-test--said bridge "t_look" "one")))
      (agent-q-mcp-bridge-test--beside
          (lambda (method)
            (funcall (agent-q-mcp-bridge-test--others (max 0 (cl-incf affinity))) method))
        (agent-q-mcp-mode -1)
        (agent-q-test-until (string-match-p "other" (format "%S" (agent-q-test-mcp-ask bridge "ping"))))
        (setq affinity -3)
        (should (string-match-p "of the other" (agent-q-mcp-bridge-test--said bridge "t_look" "two")))))))

(ert-deftest agent-q-mcp-bridge-answers-each-request-once-under-its-id ()
  (agent-q-test-mcp-with-tools
    (let ((bridge (agent-q-test-mcp-bridge)))
      (agent-q-test-mcp-introduce bridge)
      ;; Half of a character, as JavaScript cuts them.
      (agent-q-test-mcp-tell bridge "{\"jsonrpc\":\"2.0\",\"id\":\"sur\",\"method\":\"tools/call\",\"params\":{\"name\":\"t_look\",\"arguments\":{\"text\":\"a\\ud83db\"}}}")
      (should (string-match-p "A\ufffdB" (agent-q-test-mcp-text (agent-q-test-mcp-answer bridge "sur"))))
      ;; What is no JSON, and what is too long: the SDKs write ids last.
      (agent-q-test-mcp-tell bridge "{\"method\":\"ping\",\"params\":{\"x\":[1,]},\"jsonrpc\":\"2.0\",\"id\":\"bad\"}")
      (should (eql -32700 (agent-q-test-mcp-code (agent-q-test-mcp-answer bridge "bad"))))
      (agent-q-test-mcp-tell bridge (concat "{\"method\":\"ping\",\"params\":{\"x\":\"" (make-string 8400000 ?x)
                                            "\"},\"jsonrpc\":\"2.0\",\"id\":\"long\"}"))
      (should (string-match-p "longer than 8 MB"
                              (format "%S" (agent-q-test-mcp-answer bridge "long"))))
      (agent-q-test-mcp-tell bridge (concat "\ufeff{\"jsonrpc\":\"2.0\",\"id\":\"bom\",\"method\":\"ping\"}"))
      (should (agent-q-test-mcp-answer bridge "bom"))
      ;; One that is sent twice runs once.
      (let ((twice "{\"jsonrpc\":\"2.0\",\"id\":\"twice\",\"method\":\"tools/call\",\"params\":{\"name\":\"t_erase\",\"arguments\":{\"text\":\"t\"}}}"))
        (agent-q-test-mcp-tell bridge (concat twice "\n" twice))
        (with-current-buffer (agent-q-test-mcp-buffer)
          (agent-q-test-until (agent-q-call-waiting))
          (agent-q-test-answer "y"))
        (should (string-match-p "^T$" (agent-q-test-mcp-text (agent-q-test-mcp-answer bridge "twice"))))
        (should (agent-q-test-mcp-ask bridge "ping"))
        (should (eql 1 (seq-count (lambda (it) (equal "twice" (plist-get it :id)))
                                  (process-get bridge 'messages)))))
      ;; The last line may have no end.
      (process-send-string bridge "{\"jsonrpc\":\"2.0\",\"id\":\"last\",\"method\":\"ping\"}")
      (process-send-eof bridge)
      (should (agent-q-test-mcp-answer bridge "last")))))

(ert-deftest agent-q-mcp-bridge-says-that-an-answer-is-too-long ()
  (agent-q-test-mcp-serving
    (agent-q-mcp-mode -1)
    (agent-q-mcp-bridge-test--beside
        (lambda (method)
          (if (equal method "agent-q/affinity") "{}" (concat "\"" (make-string 8400000 ?x) "\"")))
      (should (string-match-p "The answer is longer than 8 MB"
                              (format "%S" (agent-q-test-mcp-ask (agent-q-test-mcp-bridge) "ping")))))))

(ert-deftest agent-q-mcp-bridge-works-where-its-directory-is-gone ()
  "Who calls from nowhere has no project, and is asked about every file."
  (agent-q-test-mcp-with-tools
    (let* ((folder (make-temp-file "aq-gone" t))
           (bridge (agent-q-test-mcp-bridge folder "sh" "-c" "rmdir \"$PWD\"; exec \"$0\"")))
      (agent-q-test-mcp-introduce bridge)
      (should (string-match-p "^A$" (car (agent-q-test-mcp-call bridge "t_look" '(:text "a")))))
      (let ((id (agent-q-test-mcp-begin bridge "read_file" `(:path ,(expand-file-name "Cargo.toml")))))
        (with-current-buffer (agent-q-test-mcp-buffer)
          (should-not (equal agent-q-session-root (expand-file-name "~/")))
          (agent-q-test-until (agent-q-call-waiting))
          (agent-q-test-answer "n"))
        (should (string-match-p "denied" (agent-q-test-mcp-text (agent-q-test-mcp-answer bridge id))))))))

(provide 'agent-q-mcp-bridge-test)
;;; agent-q-mcp-bridge-test.el ends here
