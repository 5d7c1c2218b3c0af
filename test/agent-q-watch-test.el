;;; agent-q-watch-test.el --- What code does outside is asked about  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Code that runs in an image reaches for files, programs and the rest; each
;; such effect is asked about when it happens.  Here a small function answers
;; in the place of a user.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-watch)

(agent-q-test-image-on-each watch-denies-what-is-not-allowed ()
  "What the user denies doesn't happen, and the reply says so."
  (let ((file (agent-q-test-watch-file "a.txt")))
    (agent-q-test-watch-with connection '("deny" "Not that one.")
      (let ((reply (agent-q-test-watch-eval
                    connection "(list 1 (ignore-errors (delete-file \"DIR/a.txt\")))")))
        (should (equal '("(1 NIL)") (agent-q-test-watch-values reply)))
        (should (equal (list (concat "delete " file)) (plist-get reply :denials)))
        (should (file-exists-p file))
        (let ((question (car agent-q-test-watch-questions)))
          (should (equal "delete-file" (plist-get question :effect)))
          (should (equal (list file) (plist-get question :files)))
          (should (equal (format "(list 1 (ignore-errors (delete-file %S)))"
                                 (concat (file-name-as-directory agent-q-test-directory) "a.txt"))
                         (plist-get question :form)))))
      ;; As it was written, not as the reader has it.
      (agent-q-test-watch-eval connection "1 (progn  (delete-file `,\"DIR/a.txt\")) 2")
      (should (string-match-p "\\`1 (progn  (delete-file `,\".*a.txt\")) 2\\'"
                              (plist-get (car agent-q-test-watch-questions) :form)))
      (let ((reply (agent-q-test-watch-eval connection "(delete-file \"DIR/a.txt\")")))
        (should (eq :error (plist-get reply :outcome)))
        (should (equal (format "Not allowed: delete %s. Not that one." file)
                       (plist-get reply :message)))
        (should (member "USE-VALUE" (mapcar #'car (plist-get reply :restarts))))))))

(agent-q-test-image-on-each watch-allows-and-stops ()
  "What the user allows happens as if there were no watch; stopping ends the call."
  (let ((file (agent-q-test-watch-file "b.txt")))
    (agent-q-test-watch-with connection "stop"
      (let ((reply (agent-q-test-watch-eval
                    connection "(handler-case (delete-file \"DIR/b.txt\") (condition () 7))")))
        (should (eq :cancelled (plist-get reply :outcome)))
        (should (equal (concat "the user stopped it when it was about to delete " file)
                       (plist-get reply :because)))
        (should (plist-get reply :denials))
        (should (file-exists-p file))))
    (agent-q-test-watch-with connection "allow"
      (let ((reply (agent-q-test-watch-eval connection "(delete-file \"DIR/b.txt\")")))
        (should (equal '("T") (agent-q-test-watch-values reply)))
        (should-not (plist-get reply :denials))
        (should-not (file-exists-p file))))))

;; SBCL's thread sends itself a signal between the two.
(agent-q-test-image-on-each watch-lets-two-interrupts-be ()
  "What others send to the thread of a call is nothing to ask about in it."
  (agent-q-test-image-directly
   connection "(progn (defvar *aq-in* nil) (defvar *aq-go* nil) (setf *aq-in* nil *aq-go* nil)
                 (sb-thread:make-thread
                  (lambda ()
                    (loop until *aq-in* do (sleep 0.01))
                    (dotimes (i 2) (sb-thread:interrupt-thread *aq-in* #'list))
                    (setf *aq-go* t)))
                 t)")
  (agent-q-test-watch-with connection "allow"
    (let ((reply (agent-q-test-watch-eval
                  connection "(progn (sb-sys:without-interrupts (setf *aq-in* sb-thread:*current-thread*)
                                       (loop until *aq-go*))
                                     5)")))
      (should (equal '("5") (agent-q-test-watch-values reply)))
      (should-not (plist-get reply :denials))
      (should (= 1 (length (agent-q-test-watch-words)))))))

;; It measures itself by a function of its own, which it wraps for that.
(agent-q-test-image-on-each watch-lets-the-profiler-be ()
  "Profiling a function of the program is nothing to ask about."
  (agent-q-test-watch-with connection "deny"
    (let ((reply (agent-q-test-watch-eval
                  connection "(defun aq-profiled () 1) (sb-profile:profile aq-profiled)
                    (aq-profiled) (sb-profile:report) (sb-profile:unprofile) 1")))
      (should (equal '("1") (agent-q-test-watch-values reply)))
      (should-not (agent-q-test-watch-words)))))

(agent-q-test-image-on-each watch-asks-in-threads-and-for-programs ()
  "Threads of a call are watched, and programs are told as one types them."
  (agent-q-test-watch-with connection "deny"
    (agent-q-test-watch-eval
     connection "(sb-thread:join-thread (sb-thread:make-thread
                   (lambda () (sb-ext:run-program \"touch\" '(\"DIR/c.txt\") :search t)))
                  :default nil)")
    (should (equal (list (format "run `touch %sc.txt`"
                                 (file-name-as-directory agent-q-test-directory)))
                   (agent-q-test-watch-words)))
    (should (equal "touch" (file-name-nondirectory
                            (plist-get (car agent-q-test-watch-questions) :program))))))

(agent-q-test-image-on-each watch-does-not-ask-for-what-was-granted ()
  "Consent that came with the call covers what it says and nothing else."
  (agent-q-test-watch-file "d.txt")
  (agent-q-test-watch-file "e.txt")
  (agent-q-test-watch-with connection "deny"
    (let ((reply (agent-q-test-watch-eval
                  connection "(delete-file \"DIR/d.txt\") (ignore-errors (delete-file \"DIR/e.txt\"))"
                  :granted `(("delete-file" ,(expand-file-name "d.txt" agent-q-test-directory))
                             ("run-program")))))
      (should (= 1 (length (plist-get reply :denials))))
      (should (= 1 (length (agent-q-test-watch-words)))))))

(agent-q-test-image-on-each watch-leaves-the-user-alone ()
  "Nobody is asked about what the user's own code does."
  (agent-q-test-watch-with connection "deny"
    (agent-q-test-image-directly
     connection (format "(delete-file %S)" (agent-q-test-watch-file "f.txt")))
    (should-not agent-q-test-watch-questions)
    (agent-q-test-image-eval
     connection (format "(delete-file %S)" (agent-q-test-watch-file "f.txt")))
    (should-not agent-q-test-watch-questions)))

(agent-q-test-image-on-each watch-lets-nothing-be-written ()
  "What is written to /dev/null is nobody's; to delete it is another thing."
  (agent-q-test-watch-with connection "deny"
    (agent-q-test-watch-eval
     connection "(dolist (way '(:append :overwrite :supersede))
                   (with-open-file (stream \"/dev/null\" :direction :output :if-exists way)
                     (print 1 stream)))")
    (should-not (agent-q-test-watch-words))
    (agent-q-test-watch-eval connection "(delete-file \"/dev/null\")")
    (should (equal '("delete /dev/null") (agent-q-test-watch-words)))))

(agent-q-test-image-on-each watch-asks-in-the-hook-of-a-process ()
  "A thread of the call that hears of a program's end can ask about what the hook does."
  (agent-q-test-watch-file "hooked.txt")
  ;; The signal of that may come to any thread, of which only those of the call can ask.
  (agent-q-test-watch-directly
   connection "(progn (sb-sys:enable-interrupt sb-unix:sigchld :default) t)")
  (unwind-protect
      (agent-q-test-watch-with connection "allow"
        (agent-q-test-watch-eval
         connection "(let ((process (sb-ext:run-program \"/bin/sleep\" '(\"0.2\") :wait nil)))
                       (setf (sb-ext:process-status-hook process)
                             (lambda (it) (declare (ignore it)) (delete-file \"DIR/hooked.txt\")))
                       (loop while (sb-ext:process-alive-p process) do (sleep 0.02)) 1)")
        (should (= 2 (length (agent-q-test-watch-words)))))
    (agent-q-test-watch-directly
     connection
     "(progn (sb-sys:enable-interrupt sb-unix:sigchld #'sb-unix::sigchld-handler) t)")))

;; To watch the function from then on, its place is looked up by one that is watched, too.
(agent-q-test-image-on-each watch-lets-c-functions-be-linked ()
  "A C function that no code had called before is asked about, by its name and by what it does."
  (agent-q-test-watch-with connection "allow"
    (let ((link (agent-q-test-watch-filled connection "DIR/linked")))
      (should (equal '("0") (agent-q-test-watch-values
                             (agent-q-test-watch-eval
                              connection
                              "(sb-alien:alien-funcall
                                 (sb-alien:extern-alien \"symlinkat\"
                                   (function sb-alien:int sb-alien:c-string sb-alien:int sb-alien:c-string))
                                 \"f\" -100 \"DIR/linked\")"))))
      (should (file-symlink-p link))
      (should (= 2 (length (agent-q-test-watch-words))))
      (delete-file link))))

(agent-q-test-image-on-each watch-does-not-wait-for-ever ()
  "A question that nobody answers is a denial, and is taken back."
  (let ((file (agent-q-test-watch-file "g.txt")))
    (agent-q-test-watch-with connection nil
      (let ((reply (agent-q-test-image-eval
                    connection (format "(ignore-errors (delete-file %S))" file)
                    :watch '(:patience 1))))
        (should (equal (list (concat "delete " file)) (plist-get reply :denials)))
        (should (plist-get (car agent-q-test-watch-questions) :withdrawn))
        (should (file-exists-p file))))))

;;;; Everything that reaches outside

(defconst agent-q-watch-test--preparation "
(require :sb-posix) (require :sb-bsd-sockets) (require :asdf)
(defun aq-compiled-unlink (x)
  (sb-alien:alien-funcall (sb-alien:extern-alien \"unlink\" (function sb-alien:int sb-alien:c-string)) x))
(defun aq-compiled-delete (x) (delete-file x))
(defun aq-compiled-posix (x) (sb-posix:unlink x))
(defvar aq-open-stream (open \"DIR/open\" :direction :output :if-exists :supersede))
(with-open-file (stream \"DIR/.env\" :direction :output :if-exists :supersede) (print 1 stream))
(ignore-errors (sb-posix:symlink \"DIR/.env\" \"DIR/link-to-env\"))
(sb-posix:setenv \"AQ_API_KEY\" \"k\" 1)
(defvar *aq-user* (sb-thread:make-thread (lambda () (loop (sleep 0.1))) :name \"aq user\"))"
  "What the forms in the fixture reaching.txt need.")

(defconst agent-q-watch-test--untouched "
(list (probe-file \"DIR/harm\") (not (probe-file \"DIR/victim\")) (sb-posix:getenv \"AQ_REACHING\")
      (not (sb-thread:thread-alive-p *aq-user*)) sb-ext:*exit-hooks*
      sb-ext:*after-gc-hooks*
      (plusp (with-open-file (stream \"DIR/open\") (file-length stream)))
      (/= #o600 (logand #o777 (sb-posix:stat-mode (sb-posix:stat \"DIR/victim\"))))
      (< (file-write-date \"DIR/victim\") (- (get-universal-time) 1000))
      (zerop (with-open-file (stream \"DIR/victim\") (file-length stream)))
      (not (equal (sb-posix:getcwd) aq-directory)))"
  "A form whose value is a list of NILs as long as no harm was done.")

(agent-q-test-image-on-each watch-sees-all-that-reaches-outside ()
  "Ninety ways to reach outside are all asked about, and none does harm when denied."
  (agent-q-test-watch-directly connection agent-q-watch-test--preparation)
  (agent-q-test-watch-directly connection "(defvar aq-directory (sb-posix:getcwd))")
  (agent-q-test-watch-with connection "deny"
    (let ((unseen nil) (harm nil)
          (lines (with-temp-buffer
                   (insert-file-contents
                    (expand-file-name "test/fixtures/watch/reaching.txt" agent-q-test-root))
                   (split-string (buffer-string) "\n" t))))
      (should (>= (length lines) 90))
      (dolist (line lines)
        (write-region "1" nil (agent-q-test-watch-filled connection "VICTIM") nil 'silent)
        (set-file-modes (agent-q-test-watch-filled connection "VICTIM") #o600)
        (let ((reply (agent-q-test-watch-eval
                      connection (agent-q-test-watch-filled connection line))))
          (unless (plist-get reply :denials)
            (push (list line reply) unseen))
          (unless (string-match-p "\\`([NIL ]*)\\'"
                                  (agent-q-test-watch-directly
                                   connection agent-q-watch-test--untouched))
            (push line harm))))
      (should-not unseen)
      (should-not harm))))

;;;; Torture

(agent-q-test-image-on-each watch-denials-leave-nothing-behind ()
  "Wherever a denial comes, locks are free and streams closed afterwards."
  (agent-q-test-watch-directly connection "(defvar *aq-lock* (sb-thread:make-mutex :name \"aq\"))
    (defun aq-deep (n) (if (zerop n) (delete-file \"VICTIM\") (1+ (aq-deep (1- n)))))")
  (agent-q-test-watch-with connection "deny"
    (dolist (form '("(sb-thread:with-mutex (*aq-lock*) (delete-file \"VICTIM\"))"
                    "(with-open-file (s \"/dev/null\") (delete-file \"VICTIM\"))"
                    "(unwind-protect (delete-file \"VICTIM\") (delete-file \"VICTIM\"))"
                    "(unwind-protect (error \"x\") (ignore-errors (delete-file \"VICTIM\")) (delete-file \"VICTIM\"))"
                    "(compile nil '(lambda () (macrolet ((m () (delete-file \"VICTIM\"))) (m))))"
                    "(compile nil '(lambda () (load-time-value (delete-file \"VICTIM\"))))"
                    "(load (make-string-input-stream \"(list #.(delete-file \\\"VICTIM\\\"))\"))"
                    "(defclass aq-p () ()) (defmethod print-object ((it aq-p) s) (delete-file \"VICTIM\")) (princ (make-instance 'aq-p))"
                    "(sb-kernel:with-world-lock () (delete-file \"VICTIM\"))"
                    "(let ((form '(delete-file \"VICTIM\"))) (loop repeat 10 do (setf form (list 'eval (list 'quote form)))) (eval form))"
                    "(let ((text \"(delete-file \\\"VICTIM\\\")\")) (loop repeat 4 do (setf text (format nil \"(eval (read-from-string ~S))\" text))) (eval (read-from-string text)))"
                    "(aq-deep 500)"
                    "(sb-sys:without-interrupts (ignore-errors (delete-file \"VICTIM\")))"
                    "(handler-bind ((error (lambda (c) (declare (ignore c)) (delete-file \"VICTIM\")))) (car 1))"
                    "(let ((n 0)) (handler-bind ((error (lambda (c) (when (< (incf n) 4) (invoke-restart (find-restart 'agent-q-image::ask-again c)))))) (delete-file \"VICTIM\")))"))
      (write-region "1" nil (agent-q-test-watch-filled connection "VICTIM") nil 'silent)
      (should (plist-get (agent-q-test-watch-eval
                          connection (agent-q-test-watch-filled connection form))
                         :denials))
      (should (file-exists-p (agent-q-test-watch-filled connection "VICTIM")))
      (should (equal "(NIL NIL NIL 4)"
                     (agent-q-test-watch-directly
                      connection "(append (mapcar #'sb-thread:mutex-owner
                                                  (list *aq-lock* sb-kernel::**world-lock** agent-q-image::*lock*))
                                          (list (funcall (compile nil '(lambda () (+ 2 2))))))"))))
    (should (equal '("3") (agent-q-test-watch-values
                           (agent-q-test-watch-eval connection "(+ 1 2)"))))))

(agent-q-test-image-on-each watch-asks-one-question-at-a-time ()
  "Fifty threads of a call ask one after the other, and all are answered."
  (agent-q-test-watch-with connection "deny"
    (let ((reply (agent-q-test-watch-eval
                  connection
                  (agent-q-test-watch-filled
                   connection
                   "(let ((threads (loop for i below 50 collect
                                     (sb-thread:make-thread
                                      (lambda (i) (ignore-errors (open (format nil \"VICTIM~D\" i) :direction :output)))
                                      :arguments (list i)))))
                      (length (mapcar (lambda (it) (sb-thread:join-thread it :default nil)) threads)))"))))
      (should (equal '("50") (agent-q-test-watch-values reply)))
      (should (= 50 (length (plist-get reply :denials))))
      (should (= 50 (length (agent-q-test-watch-words)))))))

(agent-q-test-image-on-each watch-lets-a-call-be-stopped-while-it-asks ()
  "A call that waits for an answer can be cancelled, and its question is taken back."
  (agent-q-test-watch-with connection nil
    (let ((ends nil) (request (gensym)))
      (agent-q-image-call connection request "eval-form"
                          (list :form (format "(delete-file %S)" (agent-q-test-watch-file "stopped"))
                                :watch '(:patience 60))
                          30 (lambda (status payload) (push (cons status payload) ends)))
      (should (agent-q-test-image-await (lambda () agent-q-test-watch-questions) 10))
      (agent-q-image-cancel request)
      (should (agent-q-test-image-await (lambda () ends) 5))
      (should (string-prefix-p "(:outcome :cancelled" (cdar ends)))
      (should (agent-q-test-image-await
               (lambda () (plist-get (car agent-q-test-watch-questions) :withdrawn)) 5)))))

(agent-q-test-image-on-each watch-asks-once-about-threads-that-live-on ()
  "Threads that a call leaves are ended unless the user lets them be."
  (let ((form "(progn (sb-thread:make-thread (lambda () (sleep 30)) :name \"aq lives on\") 1)")
        (count "(count \"aq lives on\" (sb-thread:list-all-threads) :key #'sb-thread:thread-name :test #'equal)"))
    (agent-q-test-watch-with connection "deny"
      (agent-q-test-watch-eval connection form)
      (should (equal '("leave a thread running: aq lives on; while no call of this chat runs, it may do nothing outside of Lisp")
                     (agent-q-test-watch-words)))
      (should (agent-q-test-image-await
               (lambda () (equal "0" (agent-q-test-watch-directly connection count))) 5)))
    (agent-q-test-watch-with connection "allow"
      (should-not (plist-get (agent-q-test-watch-eval connection form) :denials))
      (should (equal "1" (agent-q-test-watch-directly connection count)))
      (agent-q-test-watch-directly
       connection "(mapc #'sb-thread:terminate-thread
                         (remove \"aq lives on\" (sb-thread:list-all-threads)
                                 :key #'sb-thread:thread-name :test-not #'equal))"))))

;;;; Hooks while calls run

(agent-q-test-image-on-each watch-keeps-its-hooks-from-other-threads ()
  "What the user defines while a call runs calls no hook that this call has set."
  (agent-q-test-watch-directly
   connection "(progn (defvar aq-heard nil) (defvar aq-set nil) (defvar aq-go nil)
                      (setf aq-heard nil aq-set nil aq-go nil))")
  (agent-q-test-watch-with connection "deny"
    (let ((ended (agent-q-test-watch-start
                  connection "(flet ((hear (&rest it) (push it aq-heard)))
                                (push #'hear sb-int:*setf-fdefinition-hook*)
                                (push #'hear sb-int:*setf-macro-function-hook*)
                                (push #'hear sb-kernel::*defstruct-hooks*)
                                (push #'hear sb-kernel::*define-condition-hooks*)
                                (setf aq-set t)
                                (loop repeat 1000 until aq-go do (sleep 0.02)))")))
      (unwind-protect
          (progn
            (agent-q-test-watch-await-value connection "aq-set")
            (dolist (form '("(setf (fdefinition 'aq-defined) (lambda () 1))"
                            "(setf (macro-function 'aq-expanded) (lambda (form env) form env 1))"
                            "(eval '(defstruct aq-struct slot))"
                            "(eval '(define-condition aq-happening () ()))"))
              (agent-q-test-watch-directly connection (format "(progn %s t)" form))
              (should (equal "NIL" (agent-q-test-watch-directly connection "aq-heard"))))
            (should (equal "1" (agent-q-test-watch-directly connection "(aq-defined)"))))
        (agent-q-test-watch-directly connection "(setf aq-go t)")
        (should (agent-q-test-image-await ended)))
      (should (equal "NIL" (agent-q-test-watch-directly
                            connection "(find-if #'functionp sb-kernel::*defstruct-hooks*)"))))))

(agent-q-test-image-on-each watch-takes-no-hook-of-one-call-for-what-was-before-another ()
  "A call that began while another had set a hook doesn't bring that back at its end."
  (agent-q-test-watch-directly
   connection "(progn (defvar aq-set nil) (defvar aq-go nil) (defvar aq-go-on nil)
                      (setf aq-set nil aq-go nil aq-go-on nil))")
  (agent-q-test-watch-with connection "deny"
    (let* ((first (agent-q-test-watch-start
                   connection "(progn (push 'aq-evil sb-ext:*exit-hooks*) (setf aq-set 1)
                                      (loop repeat 1000 until aq-go do (sleep 0.02)))"))
           (second (progn
                     (agent-q-test-watch-await-value connection "(eql aq-set 1)")
                     (agent-q-test-watch-start
                      connection "(progn (setf aq-set 2)
                                         (loop repeat 1000 until aq-go-on do (sleep 0.02)))"))))
      (agent-q-test-watch-await-value connection "(eql aq-set 2)")
      (agent-q-test-watch-directly connection "(setf aq-go t)")
      (should (agent-q-test-image-await first))
      (agent-q-test-watch-directly connection "(setf aq-go-on t)")
      (should (agent-q-test-image-await second))
      (should (equal "NIL" (agent-q-test-watch-directly
                            connection "(find 'aq-evil sb-ext:*exit-hooks*)")))
      (should (= 1 (length (agent-q-test-watch-words)))))))

;;;; What is told of programs and hosts

(agent-q-test-image-on-each watch-says-what-programs-are-given ()
  "A question about a program says its directory, environment and input, where they are unusual."
  (agent-q-test-watch-directly connection "(require :asdf)")
  (agent-q-test-watch-file "input.txt")
  (let ((directory (file-name-as-directory (file-truename agent-q-test-directory))))
    (pcase-dolist
        (`(,form . ,words)
         `(("(sb-ext:run-program \"true\" '() :search t)" . "run `true`")
           ("(sb-ext:run-program \"true\" '(\"1\") :search t :directory \"DIR/\")"
            . ,(format "run `true 1` in %s" directory))
           ("(sb-ext:run-program \"true\" '() :search t :directory (sb-posix:getcwd))"
            . "run `true`")
           ("(sb-ext:run-program \"true\" '() :search t :input \"DIR/input.txt\")"
            . ,(format "run `true` reading %sinput.txt" directory))
           ("(with-input-from-string (in \"rm x\") (sb-ext:run-program \"true\" '() :search t :input in))"
            . "run `true` reading \"rm x\"")
           ("(sb-ext:run-program \"true\" '() :search t
               :environment (list* \"AQ_A=1\" \"AQ_TOKEN=x\" (aq-environment)))"
            . "run `true` with AQ_A=1 AQ_TOKEN=...")
           ("(sb-ext:run-program \"true\" '() :search t :environment (cdr (aq-environment)))"
            . "run `true` without ")
           ("(uiop:run-program \"true 2\" :directory \"DIR/\" :input \"DIR/input.txt\")"
            . ,(format "run `true 2` in a shell in %s, reading %sinput.txt" directory directory))
           ("(uiop:run-program '(\"cat\") :output :string
               :input (lambda (stream) (write-line \"a\" stream)))"
            . "run `cat` reading what the code writes")
           ("(with-input-from-string (in \"x\") (uiop:run-program '(\"cat\") :output :string :input in))"
            . "run `cat` reading \"x\"")))
      (agent-q-test-watch-directly
       connection "(let ((environment (sb-ext:posix-environ)))
                     (defun aq-environment () environment))")
      (agent-q-test-watch-with connection "allow"
        (let ((reply (agent-q-test-watch-eval connection form)))
          (should-not (plist-get reply :message))
          (let ((asked (agent-q-test-watch-words)))
            (should (string-prefix-p words (car asked)))
            (should-not (cdr asked))))))))

(agent-q-test-image-on-each watch-takes-a-program-for-no-other ()
  "Consent to a program covers neither another that its input runs, nor other surroundings of it."
  (agent-q-test-watch-directly
   connection "(progn
     (defclass aq-input (sb-gray:fundamental-character-input-stream) ())
     (defmethod stream-element-type ((stream aq-input)) 'character)
     (defmethod sb-gray:stream-read-char ((stream aq-input))
       (ignore-errors
        (let ((channel (make-array 2 :element-type '(signed-byte 32))))
          (sb-impl::spawn \"/bin/sh\" '(\"sh\") 0 1 2 nil nil nil channel nil nil)))
       :eof))")
  (agent-q-test-watch-with connection
      (lambda (question)
        (if (string-prefix-p "run `cat" (plist-get question :words)) "allow" "deny"))
    (let ((reply (agent-q-test-watch-eval
                  connection "(sb-ext:run-program \"cat\" '() :search t :input (make-instance 'aq-input))")))
      (should (plist-get reply :denials))
      (should (< 1 (length (agent-q-test-watch-words))))))
  (let ((granted '(:granted (("run-program" "true")))))
    (agent-q-test-watch-with connection "deny"
      (apply #'agent-q-test-watch-eval
             connection "(sb-ext:run-program \"true\" '() :search t)" granted)
      (should-not (agent-q-test-watch-words))
      (apply #'agent-q-test-watch-eval
             connection "(sb-ext:run-program \"true\" '() :search t :environment '(\"AQ_A=1\"))"
             granted)
      (should (= 1 (length (agent-q-test-watch-words)))))))

(agent-q-test-image-on-each watch-knows-what-a-program-was-said-to-be-given ()
  "A yes to a form with the directory of a program in it covers running it there."
  (let* ((form (format "(sb-ext:run-program \"true\" '(\"1\") :search t :directory %S)"
                       (file-name-as-directory agent-q-test-directory)))
         (effects (plist-get (agent-q-test-image-value connection "assess-form" :form form)
                             :effects)))
    (agent-q-test-watch-with connection "deny"
      (should-not (plist-get (agent-q-test-watch-eval connection form :granted effects)
                             :denials)))))

;; Where it runs there may be no network, so what a name means is made up.
(agent-q-test-image-on-each watch-asks-once-about-a-host ()
  "Who may look a host up may connect to it, unless that turns out to be this machine."
  (let ((another (agent-q-test-image-another (agent-q-connection-client connection))))
    (unwind-protect
        (progn
          (agent-q-test-watch-directly another "(require :sb-bsd-sockets)")
          (agent-q-test-watch-directly
           another "(progn
             (defvar aq-address (vector 192 0 2 1))
             (sb-int:encapsulate
              'sb-bsd-sockets:get-host-by-name 'aq
              (lambda (function name)
                (declare (ignore function))
                (make-instance 'sb-bsd-sockets:host-ent :name name :addresses (list aq-address))))
             (defun aq-connect (host)
               (let ((socket (make-instance 'sb-bsd-sockets:inet-socket
                                            :type :datagram :protocol :udp)))
                 (unwind-protect
                      (handler-case
                          (sb-bsd-sockets:socket-connect
                           socket
                           (sb-bsd-sockets:host-ent-address
                            (sb-bsd-sockets:get-host-by-name host))
                           9)
                        (sb-bsd-sockets:socket-error ()))
                   (sb-bsd-sockets:socket-close socket)))))")
          (agent-q-test-watch-with another "allow"
            (agent-q-test-watch-eval another "(aq-connect \"example.org\")")
            (should (equal '("look up example.org in the network and connect to it")
                           (agent-q-test-watch-words)))
            ;; Another call is another question.
            (agent-q-test-watch-eval another "(aq-connect \"192.0.2.1\")")
            (should (equal "connect to 192.0.2.1:9"
                           (car (last (agent-q-test-watch-words)))))
            (agent-q-test-watch-directly another "(setf aq-address (vector 127 0 0 1))")
            (agent-q-test-watch-eval another "(aq-connect \"example.org\")")
            (should (equal "connect to 127.0.0.1:9" (car (last (agent-q-test-watch-words)))))
            (should (= 4 (length (agent-q-test-watch-words))))))
      (agent-q-test-image-kill another))))

(agent-q-test-image-on-each watch-lets-warnings-be-muffled ()
  "Muffling warnings by class asks nothing; by what calls the program's functions does."
  (agent-q-test-watch-with connection "deny"
    (should-not (plist-get (agent-q-test-watch-eval
                            connection "(setf sb-ext:*muffled-warnings* '(or style-warning sb-ext:compiler-note))")
                           :denials))
    (should-not (plist-get (agent-q-test-watch-eval
                            connection "(let ((sb-ext:*muffled-warnings* '(satisfies aq-p))) 1)")
                           :denials))
    (should-not (agent-q-test-watch-words))
    (agent-q-test-watch-eval connection "(setf sb-ext:*muffled-warnings* '(satisfies aq-p))")
    (should (= 1 (length (agent-q-test-watch-words))))
    (should (equal "(OR STYLE-WARNING COMPILER-NOTE)"
                   (agent-q-test-watch-directly connection "sb-ext:*muffled-warnings*")))
    (agent-q-test-watch-directly
     connection "(setf sb-ext:*muffled-warnings* 'sb-kernel::uninteresting-redefinition)")))

;;;; Beside the call

(agent-q-test-image-on-each watch-goes-along-with-trace ()
  "The user traces a watched function before, during and after the watch."
  (let ((traced (lambda ()
                  (agent-q-test-watch-directly
                   connection "(let ((text (make-string-output-stream)))
                                 (let ((*trace-output* text)) (probe-file \"/\") (close (open \"/dev/null\")))
                                 (and (search \"OPEN\" (get-output-stream-string text)) :traced))"))))
    (agent-q-test-watch-with connection "deny"
      (agent-q-test-watch-directly connection "(trace open)")
      (agent-q-test-watch-eval connection "(+ 1 2)")
      (should (equal ":TRACED" (funcall traced)))
      (should (equal "(OPEN)" (agent-q-test-watch-directly connection "(trace)")))
      (agent-q-test-watch-directly connection "(untrace)")
      (should (equal "NIL" (funcall traced)))
      (agent-q-test-watch-eval connection (format "(ignore-errors (delete-file %S))" (agent-q-test-watch-file "traced")))
      (should (= 1 (length (agent-q-test-watch-words)))))))

(agent-q-test-image-on-each watch-is-put-in-once-and-taken-out ()
  "New text of ours doesn't put guards upon guards, and they can be removed."
  (let ((guards (lambda ()
                  (agent-q-test-watch-directly
                   connection "(let ((count 0))
                                 (loop for f = (sb-int:encapsulated-p 'delete-file :agent-q-watch)
                                       while f
                                       do (incf count) (sb-int:unencapsulate 'delete-file :agent-q-watch))
                                 count)"))))
    (agent-q-test-watch-with connection "deny"
      (agent-q-test-image-value connection "watch-remove")
      (should (equal "0" (funcall guards)))
      (agent-q-test-image-value connection "describe-symbol" :symbol "car")
      (should (equal "0" (funcall guards)))
      (agent-q-test-watch-eval connection "(+ 1 2)")
      (agent-q-test-watch-directly connection "(delete-package :agent-q-image)")
      (agent-q-test-watch-eval connection "(+ 1 2)")
      (should (equal "1" (funcall guards)))
      ;; That a guard was taken away is told, and it is there again.
      (should (equal '("take agent-q's watch off DELETE-FILE")
                     (plist-get (agent-q-test-watch-eval connection "(+ 1 2)") :denials)))
      (should (equal "1" (funcall guards)))
      (agent-q-test-image-value connection "watch-remove"))))

(agent-q-test-image-on-each watch-lets-the-user-debug ()
  "In the debugger of a watched call the user's forms are the user's; the agent's are asked about."
  (agent-q-test-watch-with connection "deny"
    (let ((victim (agent-q-test-watch-filled connection "VICTIM"))
          (ends nil) (user nil))
      (write-region "1" nil victim nil 'silent)
      (agent-q-image-call connection (gensym) "eval-form"
                          (list :form (format "(progn (ignore-errors (delete-file %S)) (cerror \"Go\" \"x\") (ignore-errors (delete-file %S)))"
                                              victim victim)
                                :on-error "park" :watch '(:patience 30))
                          30 (lambda (status payload) (push (cons status payload) ends)))
      (should (agent-q-test-image-await (lambda () ends) 20))
      (should (string-match-p ":denials (\"delete" (cdar ends)))
      (let* ((parked (car (agent-q-image-park-list)))
             (thread (agent-q-image-parked-thread parked)))
        (agent-q-connection-ask connection :rex
                            `(cl:if (cl:delete-file ,victim) "gone" "there")
                            thread (lambda (result) (setq user result)))
        (should (agent-q-test-image-await (lambda () user) 10))
        (should (equal '(:ok "gone") user))
        (should (= 1 (length (agent-q-test-watch-words))))
        (write-region "1" nil victim nil 'silent)
        (setq ends nil)
        (agent-q-image-call connection (gensym) "eval-in-frame"
                            (list :form (format "(ignore-errors (delete-file %S))" victim)
                                  :watch '(:patience 30))
                            30 (lambda (status payload) (push (cons status payload) ends))
                            nil thread)
        (should (agent-q-test-image-await (lambda () ends) 20))
        (should (string-match-p ":denials (\"delete" (cdar ends)))
        (setq ends nil)
        (agent-q-image-resume parked (gensym) "invoke-restart" '(:restart "continue" :watch (:patience 30))
                              30 (lambda (status payload) (push (cons status payload) ends)))
        (should (agent-q-test-image-await (lambda () ends) 20))
        ;; The call was denied this before.
        (should (string-match-p ":denials (\"delete" (cdar ends)))
        (should (= 2 (length (agent-q-test-watch-words))))
        (should (file-exists-p victim))))))

(agent-q-test-image-on-each watch-expands-without-effect ()
  "A macro that reaches out while it is looked at is a hit, and does no harm."
  (write-region "1" nil (agent-q-test-watch-filled connection "VICTIM") nil 'silent)
  (agent-q-test-watch-directly
   connection "(defmacro aq-harmful () (ignore-errors (delete-file \"VICTIM\")) 1)")
  (agent-q-test-watch-with connection "allow"
    (let ((value (agent-q-test-image-value connection "assess-form" :form "(aq-harmful)")))
      (should (string-match-p "tries to delete .*victim while it is expanded"
                              (car (plist-get value :hits))))
      (should-not agent-q-test-watch-questions)
      (should (file-exists-p (agent-q-test-watch-filled connection "VICTIM"))))
    (should (equal '(("delete-file" "/tmp/a") ("run-program" "/bin/sh -c 'ls -l'"))
                   (plist-get (agent-q-test-image-value
                               connection "assess-form"
                               :form "(delete-file \"/tmp/a\") (uiop:run-program \"ls -l\")")
                              :effects)))))

(agent-q-test-image-on-each watch-lets-builds-be ()
  "Building a system asks nothing, but for what its code does elsewhere."
  (agent-q-test-watch-directly connection "(require :asdf)")
  (let* ((directory (expand-file-name "aq-built/" agent-q-test-directory))
         (file (expand-file-name "aq-built.asd" directory))
         (systems (list :systems (list (list :name "aq-built" :file file)))))
    (make-directory directory t)
    (write-region "(defsystem \"aq-built\" :components ((:file \"one\")))" nil file nil 'silent)
    (write-region (agent-q-test-watch-filled
                   connection "(defun aq-built () 1)
                               (eval-when (:compile-toplevel)
                                 (ignore-errors (close (open \"HARM\" :direction :output))))")
                  nil (expand-file-name "one.lisp" directory) nil 'silent)
    (agent-q-test-watch-with connection "deny"
      (let ((reply (apply #'agent-q-test-image-reply connection "load-system"
                          :system "aq-built" :file file :watch '(:patience 30) systems)))
        (should (eq :returned (plist-get reply :outcome)))
        (should (equal (list (concat "write " (agent-q-test-watch-filled connection "HARM")))
                       (plist-get reply :denials)))
        (should (= 1 (length (agent-q-test-watch-words)))))
      (let ((reply (agent-q-test-image-reply connection "compile-form" :watch '(:patience 30)
                                             :form "(defun aq-compiled (x) (list x))")))
        (should (eq :returned (plist-get reply :outcome)))
        (should-not (plist-get reply :denials)))
      (let ((reply (agent-q-test-image-reply connection "compile-file" :watch '(:patience 30)
                                             :file (expand-file-name "one.lisp" directory))))
        (should (= 1 (length (plist-get reply :denials))))))))

(agent-q-test-image-on-each watch-lets-libraries-add-methods ()
  "A library that is needed may add methods to the implementation's functions; the system itself asks."
  (agent-q-test-watch-directly connection "(require :asdf)")
  (let* ((directory (expand-file-name "aq-adding/" agent-q-test-directory))
         (file (expand-file-name "aq-adding.asd" directory))
         (library (expand-file-name "aq-added.asd" directory))
         (systems (list :systems (list (list :name "aq-adding" :file file)
                                       (list :name "aq-added" :file library)))))
    (make-directory directory t)
    (write-region "(defsystem \"aq-adding\" :depends-on (\"aq-added\") :components ((:file \"mine\")))"
                  nil file nil 'silent)
    (write-region "(defsystem \"aq-added\" :components ((:file \"its\")))" nil library nil 'silent)
    (write-region "(defmethod print-object :around ((object readtable) stream) (call-next-method))"
                  nil (expand-file-name "its.lisp" directory) nil 'silent)
    (write-region "(defmethod print-object :around ((object restart) stream) (call-next-method))"
                  nil (expand-file-name "mine.lisp" directory) nil 'silent)
    (agent-q-test-watch-with connection "deny"
      (apply #'agent-q-test-image-reply connection "load-system"
             :system "aq-adding" :file file :watch '(:patience 30) systems)
      (let ((words (agent-q-test-watch-words)))
        (should (= 1 (length words)))
        (should (string-match-p "\\`add the method PRINT-OBJECT :AROUND (RESTART T) of a function that is not the program's, by .*mine\\.fasl\\'"
                                (car words)))))))

(agent-q-test-image-on-each watch-lets-new-packages-define-their-own ()
  "What comes with SBCL brings packages with names like SBCL's; those of packages there before ask."
  (agent-q-test-watch-directly connection "(require :asdf)")
  ;; Newer SBCLs have this one from the beginning.
  (skip-unless (equal '("NIL") (agent-q-test-image-values connection "(find-package :sb-sprof)")))
  (agent-q-test-watch-with connection
      (lambda (question)
        (if (string-prefix-p "use" (plist-get question :words)) "allow" "deny"))
    (should (eq :returned (plist-get (agent-q-test-watch-eval connection "(require :sb-sprof)")
                                     :outcome)))
    ;; Newer SBCLs have linked that function already.
    (should (member (agent-q-test-watch-words)
                    '(("use the C function pthread_kill") nil)))
    (let ((before (length (agent-q-test-watch-words))))
      (agent-q-test-watch-eval connection "(defun sb-sprof:report (&rest x) x)")
      (should (= (1+ before) (length (agent-q-test-watch-words)))))))

(agent-q-test-image-on-each watch-names-the-file-of-a-definition ()
  "Looking a system up asks where that loads its definition, which it names, and not otherwise."
  (agent-q-test-watch-directly connection "(require :asdf)")
  (let* ((directory (file-name-as-directory (expand-file-name "aq-defined" agent-q-test-directory)))
         (file (expand-file-name "aq-defined.asd" directory))
         (form (format "(let ((asdf:*central-registry* (list #p%S))) (asdf:system-source-file \"aq-defined\"))"
                       directory)))
    (make-directory directory t)
    (write-region "(defsystem \"aq-defined\")" nil file nil 'silent)
    (agent-q-test-watch-with connection "allow"
      (dotimes (_ 2)
        (should (eq :returned (plist-get (agent-q-test-image-reply
                                          connection "eval-form" :form form
                                          :watch '(:patience 30))
                                         :outcome))))
      (should (equal (list (format "load %s, which defines the system aq-defined" file))
                     (agent-q-test-watch-words))))))

(agent-q-test-image-on-each watch-asks-about-programs-of-builds ()
  "Consent to building a system covers none of the programs that it runs, but the granted one."
  (agent-q-test-watch-directly connection "(require :asdf)")
  (let* ((directory (expand-file-name "aq-running/" agent-q-test-directory))
         (file (expand-file-name "aq-running.asd" directory))
         (systems (list :systems (list (list :name "aq-running" :file file)))))
    (make-directory directory t)
    (write-region
     "(ignore-errors (uiop:run-program \"echo asd\"))
      (defun cl-user::aq-around (next)
        (ignore-errors (uiop:launch-program '(\"echo\" \"around\")))
        (funcall next))
      (defsystem \"aq-running\" :components ((:file \"one\"))
        :around-compile cl-user::aq-around
        :perform (prepare-op :after (o c)
                   (ignore-errors (sb-ext:run-program \"/bin/echo\" '(\"granted\")))
                   (ignore-errors (sb-ext:run-program \"/bin/echo\" '(\"perform\"))))) "
     nil file nil 'silent)
    (write-region
     "(eval-when (:compile-toplevel)
        (ignore-errors (sb-ext:run-program \"/bin/echo\" '(\"compiling\"))))
      (sb-alien:alien-funcall
        (sb-alien:extern-alien \"system\" (function sb-alien:int sb-alien:c-string)) \"echo c\")
      (ignore-errors (sb-ext:run-program \"/bin/echo\" '(\"loading\")))"
     nil (expand-file-name "one.lisp" directory) nil 'silent)
    (agent-q-test-watch-with connection "deny"
      (let ((reply (apply #'agent-q-test-image-reply connection "load-system"
                          :system "aq-running" :file file
                          :watch '(:patience 30 :granted (("run-program" "/bin/echo granted")))
                          systems)))
        (should-not (plist-get reply :message))
        (should (equal '("run `/bin/echo compiling`" "run `/bin/echo loading`"
                         "run `/bin/echo perform`" "run `echo around`"
                         "run `echo asd` in a shell" "run `echo c` in a shell")
                       (sort (delete-dups (agent-q-test-watch-words)) #'string<)))))))

;; SBCL gives the stack of a thread that has ended to the next one, as it was left.
(agent-q-test-image-on-each watch-guards-the-stacks-of-threads ()
  "Threads of a call that run out of stack one after the other don't end the image."
  (let ((reply (agent-q-test-watch-eval connection "
(let ((*debugger-hook* (lambda (condition hook)
                         (declare (ignore condition hook))
                         (sb-thread:abort-thread))))
  (labels ((deep (n) (+ 1 (deep (1+ n)))))
    (loop repeat 6
          collect (sb-thread:join-thread
                   (sb-thread:make-thread
                    (lambda ()
                      (handler-bind ((storage-condition
                                       (lambda (condition)
                                         (declare (ignore condition))
                                         (sb-thread:abort-thread))))
                        (deep 1))))
                   :default :aborted))))")))
    (should (equal '("(:ABORTED :ABORTED :ABORTED :ABORTED :ABORTED :ABORTED)")
                   (agent-q-test-watch-values reply)))
    (should-not (plist-get reply :denials))))

(defun agent-q-watch-test--compile-all (connection)
  "Wait until all of ours behind CONNECTION is compiled; help where no thread does it."
  (should (agent-q-test-image-await
           (lambda ()
             (equal "NIL" (agent-q-test-image-directly
                           connection
                           "(progn (unless agent-q-image::*compiling* (agent-q-image::compile-all))
                                   (agent-q-image::interpreted-names))"))))))

(agent-q-test-image-on-each watch-compiles-again-after-its-thread-was-ended ()
  "A program may end the thread that compiles what has arrived."
  (agent-q-test-watch-eval connection "(+ 1 2)")
  (agent-q-watch-test--compile-all connection)
  (should (equal "NIL" (agent-q-test-image-directly
                        connection
                        "(let ((begun nil))
                           (setf agent-q-image::*compiling* t)
                           (setf (symbol-function 'agent-q-image::aq-interpreted)
                                 (let ((sb-ext:*evaluator-mode* :interpret))
                                   (eval '(lambda () 1))))
                           (sb-int:encapsulate 'agent-q-image::compile-function 'aq-ended
                                               (lambda (&rest ignored)
                                                 (declare (ignore ignored))
                                                 (setf begun t)
                                                 (loop (sleep 1))))
                           (let ((thread (sb-thread:make-thread #'agent-q-image::compile-all)))
                             (loop until begun do (sleep 0.01))
                             (sb-thread:terminate-thread thread)
                             (sb-thread:join-thread thread :default nil))
                           (sb-int:unencapsulate 'agent-q-image::compile-function 'aq-ended)
                           (fmakunbound 'agent-q-image::aq-interpreted)
                           agent-q-image::*compiling*)"))))

(agent-q-test-image-on-each watch-compiles-in-one-thread ()
  "A call compiles what it needs of ours in one thread, however long that was left interpreted."
  (agent-q-test-watch-eval connection "(+ 1 2)")
  ;; The thread that compiles what has arrived is not to come to its help.
  (agent-q-watch-test--compile-all connection)
  (agent-q-test-image-directly
   connection "(setf (symbol-function 'agent-q-image::take-snapshot)
                     (let ((sb-ext:*evaluator-mode* :interpret))
                       (eval (list 'lambda '() (list 'funcall #'agent-q-image::take-snapshot)))))")
  (let ((ends nil))
    (unwind-protect
        (progn
          (should (equal "(AGENT-Q-IMAGE::TAKE-SNAPSHOT)"
                         (agent-q-test-image-directly
                          connection "(agent-q-image::interpreted-names)")))
          (agent-q-image-call connection (gensym) "eval-form"
                              '(:form "(defun aq-apart () 3)"
                                      :watch (:patience 30))
                              30
                              (lambda (status payload)
                                (push (agent-q-test-image-read status payload) ends)))
          (should (agent-q-test-image-await
                   (lambda ()
                     (should (equal "T" (agent-q-test-image-directly
                                         connection
                                         "(< (count \"agent-q compiles itself\"
                                                    (sb-thread:list-all-threads)
                                                    :key #'sb-thread:thread-name :test #'equal)
                                             2)")))
                     ends)))
          (should (equal "done" (car (car ends))))
          (should (equal '("AQ-APART") (agent-q-test-watch-values (cdr (car ends)))))
          (should-not (plist-get (cdr (car ends)) :denials))
          (should (equal "NIL" (agent-q-test-image-directly
                                connection "(agent-q-image::interpreted-names)"))))
      (agent-q-test-image-directly
       connection "(agent-q-image::compile-function 'agent-q-image::take-snapshot)")
      (agent-q-test-image-await (lambda () ends)))))

(agent-q-test-image-on-each watch-expands-without-the-program-s-hooks ()
  "What is interpreted of ours expands macros, which no hook of the program's takes part in.
It would come to a guard itself, which expands macros, and so on to the end of the stack."
  (agent-q-test-watch-eval connection "(+ 1 2)")
  (agent-q-watch-test--compile-all connection)
  (agent-q-test-image-directly
   connection "(progn
    (defun aq-rmdir (name)
      (sb-alien:alien-funcall
       (sb-alien:extern-alien \"rmdir\" (function sb-alien:int sb-alien:c-string)) name))
    (defvar *aq-compiled* (loop for name in '(agent-q-image::meet agent-q-image::go-on
                                              agent-q-image::settle-effect agent-q-image::deny
                                              agent-q-image::foreign-may-p)
                                collect (list name (symbol-function name))))
    (loop for (name function) in *aq-compiled*
          do (setf (symbol-function name)
                   (let ((sb-ext:*evaluator-mode* :interpret))
                     (eval (list 'lambda '(&rest arguments)
                                 (list 'when t (list 'apply function 'arguments))))))))")
  (unwind-protect
      (agent-q-test-watch-with connection "deny"
        (dolist (harm '("(delete-file \"DIR/x\")" "(aq-rmdir \"DIR/x\")"))
          (let ((reply (agent-q-test-watch-eval connection (format "
(let* ((count 0)
       ;; It is to end where this goes wrong, too.
       (*macroexpand-hook* (lambda (expander form environment)
                             (when (< (incf count) 40) (ignore-errors %s))
                             (funcall expander form environment))))
  (macroexpand-1 '(when 1 2))
  (list count (macroexpand-1 '(unless 1 2))))" harm))))
            (should (equal (list '("(1 (IF 1 NIL 2))") nil)
                           (list (agent-q-test-watch-values reply) (plist-get reply :message)))))))
    (agent-q-test-image-directly
     connection "(loop for (name function) in *aq-compiled*
                       do (setf (symbol-function name) function))")))

(agent-q-test-image-on-each watch-ends-with-its-client ()
  "When Emacs goes while a question is open, the Lisp goes on without a watch."
  ;; SLY's own reply to a closed connection ends the Lisp, whatever the call was.
  (when (eq 'sly (agent-q-connection-client connection))
    (ert-skip "SLY ends the Lisp itself"))
  (let* ((client (agent-q-connection-client connection))
         (other (agent-q-test-image-another client))
         (done (expand-file-name "done" agent-q-test-directory)))
    (unwind-protect
        (agent-q-test-watch-with other nil
          (agent-q-test-watch-eval other "(+ 1 2)")
          (agent-q-test-image-directly
           other (format "(defvar *aq-checks*
                            (sb-thread:make-thread
                             (lambda ()
                               (loop repeat 100
                                     for left = (list (sb-int:encapsulated-p 'delete-file :agent-q-watch)
                                                      (sb-thread:mutex-owner agent-q-image::*lock*)
                                                      agent-q-image::*running*)
                                     do (with-open-file (s %S :direction :output :if-exists :supersede)
                                          (prin1 left s))
                                        (sleep 0.3)))))"
                         done))
          (agent-q-image-call other (gensym) "eval-form"
                              (list :form (format "(ignore-errors (delete-file %S))" (agent-q-test-watch-file "left"))
                                    :watch '(:patience 60))
                              30 #'ignore)
          (should (agent-q-test-image-await (lambda () agent-q-test-watch-questions) 10))
          (let ((inferior (agent-q-test-image-process other)))
            (delete-process (agent-q-connection-process other))
            (should (agent-q-test-image-await (lambda () (file-exists-p done)) 20))
            (should (agent-q-test-image-await
                     (lambda ()
                       (equal "(NIL NIL NIL)"
                              (with-temp-buffer (insert-file-contents done) (buffer-string))))
                     25))
            (signal-process inferior 'SIGKILL)))
      (ignore-errors (delete-file done))
      (agent-q-test-image-kill other))))

(agent-q-test-image-on-each watch-is-there-for-the-first-look ()
  "A printer of the program's does nothing when the first call of an image only looks."
  (let ((other (agent-q-test-image-another (agent-q-connection-client connection)))
        (kept (make-temp-file "aq-kept")))
    (unwind-protect
        (progn
          (agent-q-test-image-directly
           other (format "(progn (defclass aq-odd () ())
                                 (defmethod print-object ((it aq-odd) stream)
                                   (delete-file %S) (princ :odd stream))
                                 (defvar *aq-odd* (make-instance 'aq-odd)))"
                         kept))
          (let ((reply (agent-q-test-image-reply other "describe-symbol" :symbol "*aq-odd*"
                                                 :watch '(:look t))))
            (should (eq :returned (plist-get reply :outcome)))
            (should (string-match-p (regexp-quote kept) (format "%S" (plist-get reply :denials)))))
          (should (file-exists-p kept))
          ;; It hears of closed connections from then on: setting that up in the middle of a call would
          ;; be taken for a deed of the call beside it.
          (should (equal "T" (agent-q-test-image-directly
                              other "(not (not (member 'agent-q-image::forget-closed-connections
                                                       (symbol-value (find-symbol \"*CONNECTION-CLOSED-HOOK*\" (if (find-package :slynk) :slynk :swank))))))"))))
      (delete-file kept)
      (agent-q-test-image-kill other))))

(provide 'agent-q-watch-test)
;;; agent-q-watch-test.el ends here
