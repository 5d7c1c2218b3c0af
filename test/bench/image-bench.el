;;; image-bench.el --- Calls into a Lisp image, in batch  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Calls of ours and bare calls of the client's, one after the other in turns, so
;; that what else the machine does meets both.  AGENT_Q_BENCH is sly or slime.

;;; Code:

(require 'agent-q-bench)
(require 'agent-q-execute)
(require 'agent-q-image)
(require 'lisp-ide)

(defvar inferior-lisp-program)
(declare-function agent-q-chat-use-provider "agent-q-chat")
(declare-function agent-q-chat-send-cancel "agent-q-chat-send")
(declare-function agent-q-core-decide "ext:agent-q-core")
(declare-function agent-q-image-call "agent-q-image")
(declare-function agent-q-completion "agent-q-completion")
(declare-function agent-q-prompt-replace "agent-q-prompt")
(defvar agent-q-project-root)
(defvar agent-q-session-connection)

(defconst image-bench--rounds 300
  "How many calls of each kind are measured.")

(defvar image-bench-client nil "The client, as a symbol.")
(defvar image-bench--connection nil "The connection to the image.")
(defvar image-bench--rex nil "Function that makes a bare call.")

(defun image-bench-connect (&optional client)
  "Start SBCL through CLIENT, else the one that is wanted, and connect."
  (setq image-bench-client (or client (intern (getenv "AGENT_Q_BENCH"))))
  (agent-q-ide-use image-bench-client)
  (set (intern (format "%s-kill-without-query-p" image-bench-client)) t)
  (setq inferior-lisp-program "sbcl --no-userinit --no-sysinit")
  (let ((connected nil))
    (add-hook (intern (format "%s-connected-hook" image-bench-client))
              (lambda () (setq connected t)))
    (save-window-excursion (funcall image-bench-client))
    (agent-q-bench-await (lambda () connected)))
  (setq image-bench--connection (agent-q-connection-default-connection)
        ;; The client's own macro, which it brings only now.
        image-bench--rex
        (byte-compile
         `(lambda (form ended)
            (,(intern (format "%s-rex" image-bench-client)) (ended)
             (form "COMMON-LISP-USER" t)
             ((:ok value) (funcall ended value))
             ((:abort condition)
              (error "The bare call was aborted: %s" condition)))))))

(defun image-bench-define-names (count)
  "Define every other one of COUNT functions, as `agent-q-bench-names' names them."
  (image-bench--seconds
   (lambda ()
     (image-bench--bare
      `(cl:loop :for number :from 2 :to ,count :by 2
                :do (cl:setf (cl:fdefinition
                              (cl:intern (cl:format nil "BENCH-~D" number) "COMMON-LISP-USER"))
                             (cl:function cl:list)))))))

(defun image-bench--backend (name)
  "Return the symbol NAME of the client's own half in the image."
  (intern (format "%s:%s" (if (eq image-bench-client 'sly) "slynk" "swank") name)))

;;;; Calls, each until its end

;; Waiting for a process goes on for 10 ms after its output, so the end of a call
;; is when its continuation runs, not when the waiting is over.

(defvar image-bench--over nil "When the call ended, or nil.")

(defun image-bench--end (&rest _)
  "Note that the call has ended."
  (setq image-bench--over (float-time)))

(defun image-bench--seconds (start)
  "Call START, which starts a call that ends in `image-bench--end'.
Return how many seconds it took."
  (setq image-bench--over nil)
  (let ((began (float-time)))
    (funcall start)
    (agent-q-bench-await (lambda () image-bench--over))
    (- image-bench--over began)))

(defun image-bench--bare (form)
  "Have the image evaluate FORM without us."
  (funcall image-bench--rex form #'image-bench--end))

(defun image-bench--ours (operation arguments &optional ended)
  "Call OPERATION with ARGUMENTS through our layer, return the request.
Call ENDED with its reply."
  (let ((request (cl-gensym)))
    (agent-q-image-call image-bench--connection request operation
                        arguments 30
                        (lambda (status reply)
                          (unless (equal status "done")
                            (error "%s: %s %s" operation status reply))
                          (funcall (or ended #'image-bench--end) reply)))
    request))

(defun image-bench-name (what)
  "Return the name of the samples of WHAT."
  (format "%s.%s" image-bench-client what))

(defun image-bench--sample (what start)
  "Measure a call that START starts as a sample of WHAT."
  (agent-q-bench-sample (image-bench-name what) (image-bench--seconds start)))

(defun image-bench--in-turns (rounds &rest kinds)
  "Measure each of KINDS, (NAME . FUNCTION), ROUNDS times after a warm-up."
  (dotimes (_ 20)
    (pcase-dolist (`(,_ . ,start) kinds)
      (image-bench--seconds start)))
  (dotimes (_ rounds)
    (pcase-dolist (`(,name . ,start) kinds)
      (image-bench--sample name start))))

(defun image-bench--in-rows (rounds &rest kinds)
  "Measure each of KINDS, (NAME . FUNCTION), ROUNDS times, ten in a row.
What the client does after a call of one kind is beside the next of the same
kind; the first of a row is not measured."
  (dotimes (_ (/ rounds 10))
    (pcase-dolist (`(,name . ,start) kinds)
      (image-bench--seconds start)
      (dotimes (_ 10)
        (image-bench--sample name start)))))

;;;; What is measured

(defun image-bench--three (&rest _)
  "Have the image add without us."
  (image-bench--bare '(cl:prin1-to-string (cl:+ 1 2))))

(defun image-bench--three-ours ()
  "Have the image add through our layer."
  (image-bench--ours "eval-form" '(:form "(+ 1 2)")))

(defun image-bench--shipping ()
  "Measure the first call, which brings our half into the image."
  (image-bench--sample "ship.bare" #'image-bench--three)
  (image-bench--sample "ship" #'image-bench--three-ours))

(defun image-bench--trivial ()
  "Measure a trivial call."
  (let ((wire `(cl:if (cl:find-package "AGENT-Q-IMAGE")
                      (cl:funcall (cl:find-symbol "CALL" "AGENT-Q-IMAGE")
                                  ,(if (eq image-bench-client 'sly) :slynk :swank)
                                  1 "eval-form" '(:form "(+ 1 2)"))
                      :gone)))
    (image-bench--in-turns image-bench--rounds
                           (cons "bare" #'image-bench--three)
                           (cons "wire" (lambda () (image-bench--bare wire)))
                           (cons "call" #'image-bench--three-ours))))

(defconst image-bench--watch '(:watch (:granted nil :private (".ssh" ".pem" "id_rsa" ".env")
                                       :patience 600))
  "The argument by which what a call runs is watched.")

(defun image-bench--watched ()
  "Measure calls whose effects are asked about where they happen."
  (image-bench--sample "watch.first" #'image-bench--three-watched)
  (image-bench--in-turns image-bench--rounds
                         (cons "watch.bare" #'image-bench--three)
                         (cons "watch.call" #'image-bench--three-watched))
  (image-bench--value
   "(dotimes (i 65000) (setf (get (intern (format nil \"IMAGE-BENCH-~D\" i)) 'i) i))")
  ;; After a bare call the client looks through them.
  (image-bench--in-rows 100
                        (cons "large.bare" #'image-bench--three)
                        (cons "large.call" #'image-bench--three-watched))
  (pcase-dolist (`(,name . ,body)
                 '(("open" . "(close (open \"/etc/hostname\"))")
                   ("check" . "(probe-file \"/etc/hostname\")")
                   ("user" . "(funcall 'image-bench-work)")))
    (image-bench--value "(defun image-bench-work () (loop for i below 1000 sum (length (list i))))")
    (dotimes (_ 5)
      (image-bench--loop (concat name ".plain") body nil)
      (image-bench--loop (concat name ".watched") body image-bench--watch))))

(defun image-bench--three-watched (&rest _)
  "Have the image add through our layer, and watch it."
  (image-bench--ours "eval-form" (append '(:form "(+ 1 2)") image-bench--watch)))

(defun image-bench--value (form &optional more)
  "Evaluate FORM in the image with MORE arguments; return its first value as text."
  (let (value)
    (image-bench--seconds
     (lambda ()
       (image-bench--ours "eval-form" (append (list :form form) more)
                          (lambda (reply)
                            (setq value (car (plist-get
                                              (car (plist-get (plist-get (car (read-from-string reply))
                                                                         :value)
                                                              :forms))
                                              :values)))
                            (image-bench--end)))))
    value))

(defun image-bench--loop (name body watch)
  "Measure one round of BODY, Lisp text, in the image, as a sample of NAME.
WATCH is the argument by which it is watched, or nil."
  (agent-q-bench-sample
   (image-bench-name name)
   (/ (string-to-number
       (image-bench--value
        (format "(funcall (compile nil '(lambda ()
  (let ((start (get-internal-real-time)))
    (dotimes (i 40000) %s)
    (floor (* 1000000 (- (get-internal-real-time) start)) internal-time-units-per-second)))))"
                body)
        watch))
      1e6 40000)))

(defun image-bench--console (chat line)
  "Start the console LINE in CHAT."
  (agent-q-bench-ask chat #'image-bench--end nil line))

(defun image-bench--tool (name &rest arguments)
  "Call the tool NAME with ARGUMENTS as a program would, by the whole pipeline."
  (agent-q-execute-tool-calls
   (list (list :id "1" :name name :arguments arguments))
   (lambda (results)
     (unless (agent-q-tool-result-success (car results))
       (error "%s: %s" name (agent-q-tool-result-error (car results))))
     (image-bench--end))))

(defun image-bench--pipeline ()
  "Measure a description: by the image layer, by the whole pipeline, and in a chat."
  (agent-q-bench-serve '(((text . "Yes"))))
  (let ((chat (agent-q-bench-chat))
        (describe `(,(image-bench--backend "describe-symbol") "mapcar")))
    (image-bench--in-turns
     100
     (cons "describe.bare" (lambda () (image-bench--bare describe)))
     (cons "describe.call" (lambda () (image-bench--ours "describe-symbol"
                                                         '(:symbol "mapcar"))))
     (cons "describe.tool" (lambda () (image-bench--tool "describe_symbol" :symbol "mapcar")))
     (cons "describe.chat" (lambda ()
                             (image-bench--console chat "/describe_symbol mapcar"))))
    (kill-buffer chat)))

(defun image-bench-description ()
  "Measure a description in a chat, with nothing between two of them."
  (agent-q-bench-serve '(((text . "Yes"))))
  (let ((chat (agent-q-bench-chat)))
    (image-bench--in-turns
     100
     (cons "describe.chat-alone" (lambda ()
                                   (image-bench--console chat "/describe_symbol mapcar"))))
    (kill-buffer chat)))

(defun image-bench--mention ()
  "Measure completing a mention of a symbol, where the image has 65,000 more.
That is what Emacs does at once, how long it is until the names are there, and
what narrowing them takes."
  (agent-q-bench-serve '(((text . "Yes"))))
  (with-current-buffer (agent-q-bench-chat)
    (setq agent-q-session-connection image-bench--connection)
    (dotimes (i 40)
      (let ((began (float-time)) (there nil))
        (goto-char (point-max))
        (insert (format "@symbol:image-bench-%d" (+ 10 i)))
        (agent-q-completion)
        (agent-q-bench-sample (image-bench-name "mention.ask") (- (float-time) began))
        (while (null there)
          (accept-process-output nil 0.001)
          (let ((found (agent-q-completion)))
            (setq there (and (all-completions "" (nth 2 found)) found))))
        (agent-q-bench-sample (image-bench-name "mention.there") (- (float-time) began))
        (insert "1")
        (setq began (float-time))
        (let ((text (buffer-substring (car there) (point))))
          (completion-all-completions text (nth 2 (agent-q-completion)) nil (length text)))
        (agent-q-bench-sample (image-bench-name "mention.narrow") (- (float-time) began))
        (agent-q-prompt-replace "")))
    (kill-buffer)))

(defun image-bench--drift ()
  "Measure comparing 1,000 definitions of a project with an image that has them."
  (agent-q-bench-serve '(((text . "Yes"))))
  (let* ((directory (file-name-as-directory (expand-file-name "drift" agent-q-bench-scratch)))
         (agent-q-project-root directory))
    (make-directory directory t)
    (dotimes (file 20)
      (with-temp-file (expand-file-name (format "f%d.lisp" file) directory)
        (insert "(defpackage :bench-drift (:use :cl))\n(in-package :bench-drift)\n")
        (dotimes (i 50)
          (insert (format "(defun f%d-%d (x)\n  \"Say %d.\"\n  (list x %d))\n" file i i i)))))
    (image-bench--value
     (format "(let ((*error-output* (make-broadcast-stream)) (*standard-output* (make-broadcast-stream)))
                (dotimes (i 20) (load (compile-file (format nil \"~Af~D.lisp\" %S i)))))"
             directory))
    (let ((chat (let ((default-directory directory)) (agent-q-bench-chat))))
      (with-current-buffer chat
        (setq agent-q-session-connection image-bench--connection))
      (dotimes (_ 12)
        (image-bench--sample
         "drift"
         (lambda ()
           (agent-q-execute-look-up (buffer-local-value 'agent-q-session-number chat)
                                    "image_drift" nil #'image-bench--end))))
      (kill-buffer chat))))

(defun image-bench--side-by-side ()
  "Measure eight calls of half a second each."
  (let ((left 8)
        (began (float-time))
        ended)
    (dotimes (_ 8)
      (image-bench--ours "eval-form" '(:form "(sleep 0.5)")
                         (lambda (_)
                           (cl-decf left)
                           (setq ended (float-time)))))
    (agent-q-bench-await (lambda () (zerop left)))
    (agent-q-bench-sample (image-bench-name "eight") (- ended began))))

(defun image-bench--cancel ()
  "Measure how long an endless loop lives after it was cancelled."
  (dotimes (_ 7)
    (setq image-bench--over nil)
    (let ((request (image-bench--ours "eval-form" '(:form "(loop)")))
          (until (+ (float-time) 0.1)))
      (while (< (float-time) until)
        (accept-process-output nil 0.02))
      (image-bench--sample "cancel" (lambda () (agent-q-image-cancel request))))))

(defun image-bench--cancel-turn ()
  "Measure from the command that cancels a turn to its end in the chat.
The turn's tool is in an endless loop in the image."
  (agent-q-bench-serve
   '(((tool_calls . [((id . "c") (name . "eval_form") (arguments . ((form . "(loop)"))))]))))
  (let* ((chat (agent-q-bench-chat))
         (started nil)
         (see (lambda (event)
                (pcase (plist-get event :type)
                  (:approval (agent-q-core-decide (plist-get event :call) "approved" nil))
                  (:call-started (setq started (float-time)))))))
    (with-current-buffer chat
      (setq agent-q-session-connection image-bench--connection))
    (advice-add 'agent-q-events-dispatch :after see)
    (dotimes (_ 7)
      (setq started nil
            image-bench--over nil)
      (agent-q-bench-ask chat #'image-bench--end :cancelled)
      (agent-q-bench-await (lambda () started))
      ;; The form has to have come to its loop.
      (while (< (float-time) (+ started 0.1))
        (accept-process-output nil 0.02))
      (image-bench--sample "cancel.turn" (lambda ()
                                           (with-current-buffer chat (agent-q-chat-send-cancel)))))
    (advice-remove 'agent-q-events-dispatch see)
    (kill-buffer chat)))

(defun image-bench--main ()
  "Measure everything."
  (image-bench-connect)
  (image-bench--shipping)
  (image-bench--trivial)
  ;; Before there are 65,000 symbols through which the client looks after its own calls.
  (image-bench--pipeline)
  (image-bench--watched)
  (image-bench--mention)
  (image-bench--drift)
  (image-bench--side-by-side)
  (image-bench--cancel)
  (image-bench--cancel-turn)
  (agent-q-bench-end))

(defun image-bench-main ()
  "Measure in this batch Emacs."
  (agent-q-bench-guard (image-bench--main)))

(provide 'image-bench)
;;; image-bench.el ends here
