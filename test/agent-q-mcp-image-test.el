;;; agent-q-mcp-image-test.el --- Other agents in a real image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What other agents do in a real SBCL, through SLIME and SLY: by our own client, and by those
;; that the official SDKs for Python and TypeScript make, where those can be had.

;;; Code:

(require 'agent-q-test-mcp)
(require 'agent-q-test-image)
(require 'agent-q-test-tools)
(require 'agent-q-image-history)
(require 'agent-q-scratch)
(require 'agent-q-changes)
(require 'seq)

(defun agent-q-mcp-image-test--text (client tool &rest arguments)
  "Return the text of a call of TOOL with ARGUMENTS by CLIENT."
  (car (agent-q-test-mcp-call client tool arguments)))

(defmacro agent-q-mcp-image-test--serving (connection &rest body)
  "Run BODY while other agents are served, for whom CONNECTION's is the only image.
That of another test may be connected, too."
  (declare (indent 1) (debug t))
  `(cl-letf (((symbol-function 'agent-q-connection-connections) (lambda () (list ,connection))))
     (agent-q-test-mcp-serving ,@body)))

(agent-q-test-image-on-each "mcp-redefinition-is-listed-and-taken-back" ()
  "What a client redefines is in the journal under its name, and is undone by its turn."
  (agent-q-mcp-image-test--serving connection
    (let ((client (agent-q-test-mcp-client "claude-code")))
      (agent-q-test-image-directly connection "(defun aq-mcp () 1)")
      (should (string-match-p "^Compiled and loaded" (agent-q-mcp-image-test--text
                                        client "compile_form" :form "(defun aq-mcp () 2)")))
      (let ((agent-q-echo-evaluations t))
        (should (string-match-p "=> 2" (agent-q-mcp-image-test--text
                                        client "eval_form" :form "(aq-mcp)")))
        ;; The REPL says who it was.
        (with-current-buffer (agent-q-test-tools-repl (agent-q-connection-client connection))
          (agent-q-test-until (string-match-p "^; claude-code> (aq-mcp)$" (buffer-string)))))
      (let ((change (car (plist-get (agent-q-test-image-value connection "journal-list" :limit 1)
                                    :changes))))
        (should (string-match-p "AQ-MCP" (plist-get change :name)))
        (should (string-prefix-p "*agent-q: claude-code 1*" (plist-get change :chat))))
      (customize-set-variable 'agent-q-mcp-turn-pause 0.05)
      (unwind-protect
          (with-current-buffer (agent-q-test-mcp-buffer)
            (agent-q-test-until (agent-q-test-shows "Changed AQ-MCP"))
            (cl-letf (((symbol-function 'y-or-n-p) (lambda (_) t)))
              (agent-q-test-find "[Undo]")
              (push-button))
            (agent-q-test-until (string-match-p "=> 1" (agent-q-mcp-image-test--text
                                                        client "eval_form" :form "(aq-mcp)"))))
        (customize-set-variable 'agent-q-mcp-turn-pause 60)))))

(defun agent-q-mcp-image-test--second-lisps ()
  "Return how many second Lisps run, but for those that compile our half."
  (cl-count 'agent-q-compiled agent-q-scratch--all
            :key #'agent-q-scratch--lisp-owner :test-not #'eq))

(agent-q-test-image-on-each "mcp-clients-have-a-scratch-image" ()
  "A client's scratch image outlives its turns and ends with its connection; each has its own."
  (agent-q-mcp-image-test--serving connection
    (let ((one (agent-q-test-mcp-client "one"))
          (two (agent-q-test-mcp-client "two")))
      (should (string-match-p
               "It ends when you disconnect, or after ten minutes without use\\.)"
               (agent-q-mcp-image-test--text one "compile_form" :form "(defun aq-mcp-scratch () 2)" :image "scratch")))
      (dolist (where '("scratch" nil))
        (should (string-match-p "=> NIL"
                                (apply #'agent-q-mcp-image-test--text two "eval_form"
                                       :form "(fboundp 'aq-mcp-scratch)" (and where (list :image where))))))
      (customize-set-variable 'agent-q-mcp-turn-pause 0.05)
      (unwind-protect
          (let ((turns 0))
            (cl-letf* ((end (symbol-function 'agent-q-mcp--client-turn-ended))
                       ((symbol-function 'agent-q-mcp--client-turn-ended)
                        (lambda () (cl-incf turns) (funcall end))))
              (agent-q-test-until (= 2 turns) "the turns to end"))
            (should (= 2 (agent-q-mcp-image-test--second-lisps))))
        (customize-set-variable 'agent-q-mcp-turn-pause 60))
      (should (string-match-p "=> 2" (agent-q-mcp-image-test--text
                                      one "eval_form" :form "(aq-mcp-scratch)" :image "scratch")))
      (agent-q-test-mcp-close two)
      (agent-q-test-until (= 1 (agent-q-mcp-image-test--second-lisps)) "that of two to end")
      (agent-q-test-mcp-close one)
      (agent-q-test-until (= 0 (agent-q-mcp-image-test--second-lisps)) "that of one to end"))))

(agent-q-test-image-on-each "mcp-tools-say-whether-they-take-scratch" ()
  "Debuggers and the state of the scratch image can be asked for; what can't says so."
  (agent-q-mcp-image-test--serving connection
    (let ((client (agent-q-test-mcp-client)))
      (agent-q-mcp-image-test--text client "eval_form" :form "(error \"aq in scratch\")" :on_error "park"
                                    :image "scratch")
      (dolist (image '("scratch" nil))
        (let ((told (apply #'agent-q-mcp-image-test--text client "debugger_frames"
                           (and image (list :image image)))))
          (should (string-match-p "aq in scratch" told))
          (should (string-match-p "(In image scratch\\.)" told))
          (should (string-match-p "from=\"the image\"" told))))
      (should (string-match-p "SBCL" (agent-q-mcp-image-test--text
                                      client "call_tool" :name "image_status" :arguments '(:image "scratch"))))
      (dolist (tool '("get_compilation_notes" "describe_symbol"))
        (pcase-let ((`(,text . ,failed)
                     (agent-q-test-mcp-call client "call_tool"
                                            `(:name ,tool :arguments (:image "scratch" :symbol "car")))))
          (should failed)
          (should (string-match-p (concat "\\`Error: " tool " is not for the image scratch, .*For scratch there are .*eval_form.*debugger_frames")
                                  text)))))))

(agent-q-test-image-on-each "mcp-results-name-tools-as-the-client-calls-them" ()
  "One whose host lists all tools calls them by their names, another one by call_tool."
  (agent-q-mcp-image-test--serving connection
    (agent-q-test-image-directly connection "(defpackage :aq-found)")
    (cl-flet ((told (name)
                (agent-q-mcp-image-test--text (agent-q-test-mcp-client name)
                                              "describe_symbol" :symbol "aq-found")))
      (should (string-match-p "package of that name: package_info" (told "claude-code")))
      (should (string-match-p "package of that name: call_tool package_info" (told "other"))))))

(agent-q-test-image-on-each "mcp-a-change-belongs-to-who-made-it" ()
  "While a call of one client runs, another one and the user at the REPL define things of their own."
  (agent-q-mcp-image-test--serving connection
    (let ((one (agent-q-test-mcp-client "one")) (two (agent-q-test-mcp-client "two")))
      (agent-q-test-image-directly connection "(progn (defparameter *aq-step* 0) (defparameter *aq-old* :old))")
      (let ((sleeping (agent-q-test-mcp-begin
                       one "eval_form"
                       '(:form "(progn (setf cl-user::*aq-step* 1)
                                  (loop until (= cl-user::*aq-step* 2) do (sleep 0.01)) :slept)"))))
        (agent-q-test-until (equal "1" (agent-q-test-image-directly connection "*aq-step*")))
        (agent-q-test-image-directly connection "(progn (defun aq-users () :hours) (setf *aq-old* :users))")
        (agent-q-mcp-image-test--text two "compile_form" :form "(defun cl-user::aq-two () :two)")
        (agent-q-test-image-directly connection "(setf *aq-step* 2)")
        (should (string-match-p ":SLEPT" (agent-q-test-mcp-text (agent-q-test-mcp-answer one sleeping)))))
      (dolist (name '("aq-users" "aq-two"))
        (should (string-match-p "not changed" (agent-q-mcp-image-test--text
                                               one "undo_definition" :name (concat "cl-user::" name)))))
      (should (equal "(:HOURS :TWO :USERS)"
                     (agent-q-test-image-directly connection "(list (aq-users) (aq-two) *aq-old*)")))
      (should (string-match-p "removed the new function"
                              (agent-q-mcp-image-test--text two "undo_definition" :name "cl-user::aq-two")))
      (should (equal "(T NIL)" (agent-q-test-image-directly
                                connection "(list (and (fboundp 'aq-users) t) (fboundp 'aq-two))")))
      ;; And an error is told with the name of whose it is.
      (agent-q-mcp-image-test--text one "eval_form" :form "(error \"of one\")")
      (let ((told (agent-q-mcp-image-test--text two "get_last_error")))
        (should (string-match-p "of one" told))
        (should (string-match-p "\\*agent-q: one 1\\*" told)))
      (let ((history (format "%S" (agent-q-test-mcp-ask two "resources/read" '(:uri "agent-q://repl")))))
        (should (string-match-p "one 1\\*[^]]*\\] (error" history))
        (should-not (string-match-p "\\[you[^]]*\\] (error" history))))))

(agent-q-test-image-on-each "mcp-says-whose-definition-is-replaced" ()
  "What replaces a definition of another client's names that, and what models put around code is left out."
  (agent-q-mcp-image-test--serving connection
    (let ((one (agent-q-test-mcp-client "one")) (two (agent-q-test-mcp-client "two")))
      (agent-q-mcp-image-test--text one "compile_form" :form "(defun cl-user::aq-whose () 1)")
      (should-not (string-search "It replaces" (agent-q-mcp-image-test--text
                                                one "compile_form" :form "(defun cl-user::aq-whose () 2)")))
      (should (string-match-p
               "It replaces (DEFUN AQ-WHOSE) as \\*agent-q: one 1\\* had defined it [0-9]+ s ago\\.$"
               (agent-q-mcp-image-test--text
                two "compile_form" :form "```lisp\n(defun cl-user::aq-whose () 3)\n```")))
      (should-not (string-search "It replaces" (agent-q-mcp-image-test--text
                                                two "compile_form" :form "(defun cl-user::aq-whose () 4)")))
      (should (string-match-p "=> 4" (agent-q-mcp-image-test--text
                                      two "eval_form" :form "```\n(cl-user::aq-whose)\n```")))
      (should (string-match-p "Leave out the Markdown fences"
                              (agent-q-mcp-image-test--text two "eval_form" :form "```lisp\n(+ 1 2)"))))))

(agent-q-test-image-on-each "mcp-errors-are-results" ()
  "An error of evaluated code is a result, and its output so far comes with a pending one."
  (agent-q-mcp-image-test--serving connection
    (let ((client (agent-q-test-mcp-client)))
      (pcase-let ((`(,text . ,error) (agent-q-test-mcp-call client "eval_form" '(:form "(car 3)"))))
        (should error)
        (should (string-match-p "TYPE-ERROR" text))
        (should (string-match-p "<data-[0-9a-f]+ from=\"image" text)))
      (customize-set-variable 'agent-q-mcp-patience 0.5)
      (unwind-protect
          (let ((answer (agent-q-mcp-image-test--text
                         client "eval_form" :form "(progn (print :begun) (finish-output) (sleep 30))")))
            (should (string-match "\\`pending: .*call_id \\([0-9]+\\)" answer))
            (let ((id (string-to-number (match-string 1 answer))))
              (agent-q-test-until
               (string-match-p "is running.*\n<data-.*\nOutput so far:\n+:BEGUN ?\nIt is in, .*SLEEP"
                               (agent-q-mcp-image-test--text client "await_call" :call_id id)))
              (let ((told (agent-q-mcp-image-test--text client "cancel_call" :call_id id)))
                (should (string-match-p "the client cancelled it" told))
                (should-not (string-prefix-p "Error" told)))))
        (customize-set-variable 'agent-q-mcp-patience 45)))))

(agent-q-test-image-on-each "mcp-a-look-into-a-load-names-the-file" ()
  "While a file is loaded, awaiting its call for no time says which."
  (agent-q-mcp-image-test--serving connection
    (let* ((client (agent-q-test-mcp-client))
           (answer (agent-q-mcp-image-test--text
                    client "eval_form" :background t
                    :form "(let ((*load-truename* #p\"/aq/aq-slow.lisp\")) (sleep 20))"))
           (id (progn (string-match "call_id \\([0-9]+\\)" answer)
                      (string-to-number (match-string 1 answer)))))
      (agent-q-test-until
       (string-match-p "^It compiles or loads aq-slow\\.lisp\\.\nIt is in, .*SLEEP"
                       (agent-q-mcp-image-test--text client "await_call" :call_id id :seconds 0)))
      (agent-q-mcp-image-test--text client "cancel_call" :call_id id))))

(agent-q-test-image-on-each "mcp-a-call-is-begun-in-the-background" ()
  "It is answered at once, looked into, and awaited, by call_tool as well."
  (agent-q-mcp-image-test--serving connection
    (let* ((client (agent-q-test-mcp-client))
           (answer (agent-q-mcp-image-test--text
                    client "eval_form" :background t
                    :form "(progn (defvar cl-user::*aq-go* nil) (print :begun) (loop until cl-user::*aq-go* do (sleep 0.02)) 7)"))
           (id (progn (string-match "\\`pending: eval_form (call_id \\([0-9]+\\)" answer)
                      (string-to-number (match-string 1 answer)))))
      (agent-q-test-until
       (string-match-p "Output so far:\n+:BEGUN"
                       (agent-q-mcp-image-test--text client "await_call" :call_id id :seconds 0)))
      (agent-q-mcp-image-test--text client "eval_form" :form "(setf cl-user::*aq-go* t)")
      (should (string-match-p
               "=> 7" (agent-q-mcp-image-test--text
                       client "call_tool" :name "await_call" :arguments `(:call_id ,id))))
      (should (string-match-p "its result was given already"
                              (agent-q-mcp-image-test--text client "await_call" :call_id id)))
      (agent-q-test-image-directly connection "(makunbound 'cl-user::*aq-go*)"))))

(agent-q-test-image-on-each "mcp-a-killed-client-stops-its-call" ()
  "What ran in the image for a client that was killed is unwound, and its log says why."
  (agent-q-mcp-image-test--serving connection
    (let ((bridge (agent-q-test-mcp-bridge)))
      (agent-q-test-mcp-introduce bridge "killed")
      (agent-q-test-image-directly connection "(defparameter cl-user::*aq-killed* nil)")
      (agent-q-test-mcp-begin bridge "eval_form"
                              '(:form "(unwind-protect (progn (setf cl-user::*aq-killed* :begun) (sleep 300))
                                         (setf cl-user::*aq-killed* :unwound))"))
      (cl-flet ((is (value) (equal value (agent-q-test-image-directly connection "cl-user::*aq-killed*"))))
        (agent-q-test-until (is ":BEGUN") "the call to run")
        (signal-process bridge 'KILL)
        (agent-q-test-until (is ":UNWOUND") "the call to be stopped")
        (with-current-buffer (agent-q-test-mcp-buffer)
          (agent-q-test-until (string-match-p "cancelled\n\\(?:.*\n\\)*?The client disconnected\\." (agent-q-test-log))))
        ;; Others go on in the image.
        (should (string-match-p "=> 3" (agent-q-mcp-image-test--text (agent-q-test-mcp-client)
                                                                     "eval_form" :form "(+ 1 2)")))))))

(agent-q-test-image-on-each "mcp-says-which-of-several-is-meant" ()
  "Where several images are connected, a client has to name one, which counts for that call."
  (let ((other nil))
    (unwind-protect
        (agent-q-test-mcp-serving
          (setq other (agent-q-test-image-another (agent-q-connection-client connection)))
          (cl-letf* ((client (agent-q-test-mcp-client))
                     ;; Those of the other client may be connected, too.
                     ((symbol-function 'agent-q-connection-connections) (lambda () (list connection other)))
                     (names (mapcar #'agent-q-connection-label (list connection other)))
                     (listed (agent-q-mcp-image-test--text client "list_images")))
            (dolist (name names)
              (should (string-match-p (regexp-quote (concat "- " name ":")) listed)))
            (agent-q-test-image-directly connection "(defparameter cl-user::*aq-which* :first)")
            (agent-q-test-image-directly other "(defparameter cl-user::*aq-which* :other)")
            ;; Both are of one directory, and the client said none.
            (should (string-match-p "Several images are connected"
                                    (agent-q-mcp-image-test--text
                                     client "eval_form" :form "cl-user::*aq-which*")))
            (pcase-dolist (`(,name . ,value) (list (cons (nth 0 names) ":FIRST")
                                                   (cons (nth 1 names) ":OTHER")
                                                   (cons (nth 0 names) ":FIRST")))
              (should (string-match-p (concat "=> " value)
                                      (agent-q-mcp-image-test--text
                                       client "eval_form" :form "cl-user::*aq-which*" :image name))))
            ;; The one that was named was so for that call, also for tools that ask Emacs of the image.
            (dolist (call '(("eval_form" :form "cl-user::*aq-which*") ("get_last_error") ("debugger_frames")
                            ("eval_form" :form "1" :image "")))
              (should (string-match-p "Several images are connected"
                                      (apply #'agent-q-mcp-image-test--text client call))))
            (should (string-match-p "Several images are connected"
                                    (format "%S" (agent-q-test-mcp-ask client "resources/read"
                                                                       '(:uri "agent-q://error")))))
            (should-not (string-match-p "Several images"
                                        (agent-q-mcp-image-test--text client "get_last_error"
                                                                      :image (upcase (car names)))))
            (should (string-match-p "No image is called nope"
                                    (agent-q-mcp-image-test--text
                                     client "eval_form" :form "1" :image "nope")))
            ;; Nothing of a wrong name stays.
            (should (string-match-p "=> :OTHER"
                                    (agent-q-mcp-image-test--text
                                     client "eval_form" :form "cl-user::*aq-which*" :image (nth 1 names))))))
      (when other (agent-q-test-image-kill other)))))

;;;; The official SDKs

(defun agent-q-mcp-image-test--run (&rest command)
  "Run COMMAND; return its output, or nil when it fails."
  (with-temp-buffer
    (let ((default-directory (file-name-as-directory (expand-file-name ".cache"))))
      (and (executable-find (car command))
           (eql 0 (apply #'call-process (car command) nil t nil (cdr command)))
           (buffer-string)))))

(defun agent-q-mcp-image-test--python ()
  "Return a Python that has the official SDK, or nil."
  (make-directory ".cache" t)
  (let ((python (expand-file-name ".cache/mcp-python/bin/python")))
    (and (or (file-exists-p python)
             (and (agent-q-mcp-image-test--run "python3" "-m" "venv" "mcp-python")
                  (agent-q-mcp-image-test--run python "-m" "pip" "install" "--quiet" "mcp>=1.10")))
         (agent-q-mcp-image-test--run python "-c" "import mcp")
         python)))

(defun agent-q-mcp-image-test--node ()
  "Return a script for node that finds the official SDK, or nil."
  (let* ((folder (expand-file-name ".cache/mcp-node"))
         (script (expand-file-name "client.mjs" folder)))
    (make-directory folder t)
    (copy-file "test/fixtures/mcp/client.mjs" script t)
    (and (or (file-directory-p (expand-file-name "node_modules/@modelcontextprotocol/sdk" folder))
             (agent-q-mcp-image-test--run "npm" "install" "--silent" "--no-audit" "--no-fund"
                                          "--prefix" folder "@modelcontextprotocol/sdk"))
         script)))

(defun agent-q-mcp-image-test--client (connection command name)
  "Have COMMAND be a client called NAME in the image of CONNECTION; return its lines.
Whatever it asks for is denied."
  (agent-q-mcp-image-test--serving connection
    (customize-set-variable 'agent-q-mcp-patience 0.5)
    (unwind-protect
        (let* ((process-environment (cons (concat "AGENT_Q_MCP_DIRECTORY=" agent-q-mcp-directory)
                                          process-environment))
               (output (generate-new-buffer " *aq-sdk*"))
               (process (make-process :name "aq-sdk" :buffer output :noquery t :connection-type 'pipe
                                      :sentinel #'ignore
                                      :stderr (get-buffer-create " *aq-sdk-stderr*")
                                      :command (append command
                                                       (list (expand-file-name
                                                              "agent-q-mcp" agent-q-module-directory))))))
          (agent-q-test--until
           (lambda ()
             (let ((buffer (car (agent-q-mcp-client-buffers))))
               (when buffer
                 (with-current-buffer buffer
                   (let ((call (agent-q-call-waiting)))
                     (when call
                       (agent-q-test-see call)
                       (goto-char (agent-q-render-item-start call))
                       (agent-q-test-press "n"))))))
             (not (process-live-p process)))
           "the end of the client")
          (while (accept-process-output process 0.1))
          (with-current-buffer (car (agent-q-mcp-client-buffers))
            (should (string-prefix-p name agent-q-session-mcp-client))
            (agent-q-test-until (string-match-p ":never) cancelled" (agent-q-test-log)))
            (should (string-match-p "=> 3\\|⇒ 3" (agent-q-test-log))))
          (prog1 (with-current-buffer output (split-string (buffer-string) "\n" t))
            (kill-buffer output)))
      (customize-set-variable 'agent-q-mcp-patience 45))))

(agent-q-test-image-on-each "mcp-python-sdk" ()
  "A client of the official Python SDK lists, calls, is refused, awaits and cancels."
  (let ((python (agent-q-mcp-image-test--python)))
    (unless python (ert-skip "The Python SDK can't be had here"))
    (should (equal (agent-q-mcp-image-test--client
                    connection (list python (expand-file-name "test/fixtures/mcp/client.py")) "mcp")
                   '("listed ['await_call', 'eval_form']" "called True False" "signalled True True"
                     "refused True True" "pending True" "awaited True"
                     "prompts ['repl_loop', 'debug_error']" "resource True" "cancelled")))))

(agent-q-test-image-on-each "mcp-typescript-sdk" ()
  "The same with the official TypeScript SDK."
  (let ((script (agent-q-mcp-image-test--node)))
    (unless (and script (executable-find "node")) (ert-skip "The TypeScript SDK can't be had here"))
    (should (equal (agent-q-mcp-image-test--client connection (list "node" script) "typescript")
                   '("listed [ 'await_call', 'eval_form' ]" "called true false" "signalled true true"
                     "refused true true" "pending true" "awaited true"
                     "prompts [ 'repl_loop', 'debug_error' ]" "resource true" "cancelled")))))

(agent-q-test-image-on-each "mcp-rust-sdk" ()
  "The same with the official Rust SDK."
  (should (equal (agent-q-mcp-image-test--client
                  connection (list (agent-q-test-example-program "mcp-client")) "rmcp")
                 '("listed [\"await_call\", \"eval_form\"]" "called true false" "signalled true true"
                   "refused true true" "pending true" "awaited true"
                   "prompts [\"repl_loop\", \"debug_error\"]" "resource true" "cancelled"))))

;;;; The inspector

(defun agent-q-mcp-image-test--inspector ()
  "Return the file of the inspector for a command line, or nil.
The latest one wants a newer node than there is in many places."
  (let* ((folder (expand-file-name ".cache/mcp-inspector"))
         (modules (expand-file-name "node_modules/@modelcontextprotocol" folder))
         (program (expand-file-name "inspector-cli/build/cli.js" modules)))
    (make-directory folder t)
    (when (or (file-exists-p program)
              (agent-q-mcp-image-test--run "npm" "install" "--silent" "--no-audit" "--no-fund" "--prefix"
                                           folder "@modelcontextprotocol/inspector-cli@1"))
      ;; It asks the package that it is usually a part of for its version.
      (with-temp-file (expand-file-name "package.json" modules)
        (insert "{\"name\":\"inspector\",\"version\":\"1.0.0\"}"))
      program)))

(defun agent-q-mcp-image-test--inspect (program &rest arguments)
  "Return what the inspector, PROGRAM, says of our server when it is run with ARGUMENTS."
  (let* ((process-environment (cons (concat "AGENT_Q_MCP_DIRECTORY=" agent-q-mcp-directory)
                                    process-environment))
         (output (generate-new-buffer " *aq-inspector*"))
         (complaints (generate-new-buffer " *aq-inspector-stderr*"))
         (process (make-process :name "aq-inspector" :buffer output :noquery t :connection-type 'pipe
                                :sentinel #'ignore :stderr complaints
                                :command `("node" ,program "--cli"
                                           ,(expand-file-name "agent-q-mcp" agent-q-module-directory)
                                           ,@arguments))))
    (agent-q-test-until (not (process-live-p process)) "the end of the inspector")
    ;; It may have ended before all that it said was read.
    (while (accept-process-output process 0.1))
    (unwind-protect
        (with-current-buffer output
          (goto-char (point-min))
          (condition-case nil
              (json-parse-buffer :object-type 'plist :array-type 'list :null-object nil :false-object nil)
            (json-error (error "The inspector ended with %s and said %S, and %S"
                               (process-exit-status process) (buffer-string)
                               (with-current-buffer complaints (buffer-string))))))
      (kill-buffer output)
      (when-let ((process (get-buffer-process complaints)))
        (set-process-query-on-exit-flag process nil)
        (delete-process process))
      (kill-buffer complaints))))

(agent-q-test-image-on-each "mcp-inspector" ()
  "The inspector lists and calls."
  (let ((program (agent-q-mcp-image-test--inspector)))
    (unless (and program (executable-find "node")) (ert-skip "The inspector can't be had here"))
    (agent-q-mcp-image-test--serving connection
      (cl-flet ((inspect (&rest arguments)
                  (apply #'agent-q-mcp-image-test--inspect program arguments)))
        (should (member "eval_form" (mapcar (lambda (tool) (plist-get tool :name))
                                            (plist-get (inspect "--method" "tools/list") :tools))))
        (let ((three (inspect "--method" "tools/call" "--tool-name" "eval_form"
                              "--tool-arg" "form=(+ 1 2)")))
          (should (string-match-p "=> 3" (plist-get (car (plist-get three :content)) :text)))
          (should-not (plist-get three :isError)))
        (should (plist-get (inspect "--method" "tools/call" "--tool-name" "eval_form"
                                    "--tool-arg" "form=(car 3)")
                           :isError))))))

(provide 'agent-q-mcp-image-test)
;;; agent-q-mcp-image-test.el ends here
